package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// table is the name of a table; an empty database is the connection's.
type table struct {
	database string
	name     string
}

var names = regexp.MustCompile(`^[A-Za-z0-9_$]{1,64}$`)

func parseTable(text string) (table, error) {
	database, name, qualified := strings.Cut(text, ".")
	if !qualified {
		database, name = "", text
	}
	if !names.MatchString(name) || qualified && !names.MatchString(database) {
		return table{}, fmt.Errorf("%q is no name of a table: letters, digits, _ and $, with the database before a dot", text)
	}
	return table{database, name}, nil
}

// quoted is the name as it stands in a statement; only checked names come here.
func (t table) quoted() string {
	if t.database == "" {
		return "`" + t.name + "`"
	}
	return "`" + t.database + "`.`" + t.name + "`"
}

// oldTable is go-outbox's, as it was found.
type oldTable struct {
	table
	// Which rows are moved, as a condition.
	wanted string
	// Their order: empty where the server keeps rows in the order of their insertion.
	order string
}

const engine = `
select engine from information_schema.tables where table_schema = coalesce(nullif(?, ''), database()) and table_name = ?`

const autoIncrement = `
select column_name from information_schema.columns
where table_schema = coalesce(nullif(?, ''), database()) and table_name = ? and extra like '%auto_increment%'`

const uniqueKeys = `
select count(*) from information_schema.statistics
where table_schema = coalesce(nullif(?, ''), database()) and table_name = ? and non_unique = 0`

// look finds both tables, and refuses what a transaction cannot protect.
func look(ctx context.Context, db *sql.DB, asked options) (oldTable, error) {
	old := oldTable{table: asked.from, wanted: "state = 0"}
	if asked.takeGivenUp {
		old.wanted = "state in (0, 2)"
	}
	if !asked.takeLocked {
		old.wanted += " and locked_by is null"
	}
	for _, each := range []struct {
		table
		next string
	}{{asked.from, "name it with -table"}, {asked.to, "run `postrider migrate` first, or name its prefix with -prefix"}} {
		var found sql.NullString
		switch err := db.QueryRowContext(ctx, engine, each.database, each.name).Scan(&found); {
		case errors.Is(err, sql.ErrNoRows):
			return old, fmt.Errorf("there is no table %s: %s", each.quoted(), each.next)
		case err != nil:
			return old, err
		case found.String != "InnoDB":
			return old, fmt.Errorf("the table %s is kept by %q, which has no transactions, so a crash could lose or double "+
				"messages: `alter table %s engine = InnoDB` first", each.quoted(), found.String, each.quoted())
		}
	}
	order, err := orderOf(ctx, db, asked.from)
	if err != nil {
		return old, err
	}
	old.order = order
	var twice string
	err = db.QueryRowContext(ctx, "select id from "+old.quoted()+" where "+old.wanted+" group by id having count(*) > 1 limit 1").Scan(&twice)
	if err == nil {
		return old, fmt.Errorf("the id %q stands twice in %s, so one of the two could not be removed alone: give one of them "+
			"an id of its own first", twice, old.quoted())
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return old, err
	}
	return old, nil
}

// orderOf tells how rows are put in the order in which they were written. As go-outbox ships it, the table has no key at
// all: then the server itself keeps it in this order, and go-outbox sends it so. With a number of its own it is that
// number; with another key there is only created_on, which knows whole seconds.
func orderOf(ctx context.Context, db *sql.DB, from table) (string, error) {
	var column string
	err := db.QueryRowContext(ctx, autoIncrement, from.database, from.name).Scan(&column)
	if err == nil && names.MatchString(column) {
		return " order by `" + column + "`", nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	var unique int
	if err := db.QueryRowContext(ctx, uniqueKeys, from.database, from.name).Scan(&unique); err != nil {
		return "", err
	}
	if unique == 0 {
		return "", nil
	}
	return " order by created_on", nil
}

// counts is what stands in the table.
type counts struct {
	pending  int
	locked   int
	givenUp  int
	others   int
	lockedBy sql.NullString
	lockedOn sql.NullString
}

func (c counts) String() string {
	return fmt.Sprintf("%d pending, %d of them locked by a dispatcher; %d given up; %d delivered or other", c.pending, c.locked, c.givenUp, c.others)
}

func (old oldTable) count(ctx context.Context, db *sql.DB) (counts, error) {
	var c counts
	row := db.QueryRowContext(ctx, `
select coalesce(sum(state = 0), 0), coalesce(sum(state = 0 and locked_by is not null), 0), coalesce(sum(state = 2), 0),
       coalesce(sum(state not in (0, 2)), 0), min(case when state = 0 then locked_by end),
       min(case when state = 0 then locked_on end)
from `+old.quoted())
	err := row.Scan(&c.pending, &c.locked, &c.givenUp, &c.others, &c.lockedBy, &c.lockedOn)
	return c, err
}
