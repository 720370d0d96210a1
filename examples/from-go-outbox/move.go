package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// How often a batch is tried again that the server rolled back or that had to wait for too long.
	tries = 10
	pause = 500 * time.Millisecond
	// Messages that -leave-bad leaves at most.
	mostBad = 1000
)

// mover moves batch after batch.
type mover struct {
	db    *sql.DB
	asked options
	old   oldTable
	// Ids that are left where they are, in the order in which they were met.
	bad []any
}

// move moves everything that is wanted, and with -follow what comes after it.
func move(ctx context.Context, db *sql.DB, asked options, old oldTable) error {
	m := mover{db: db, asked: asked, old: old}
	moved := 0
	for {
		n, err := m.persistently(ctx)
		moved += n
		if err == nil && n > 0 {
			fmt.Fprintf(os.Stderr, "moved %d\n", moved)
			continue
		}
		if err == nil && asked.follow > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(asked.follow):
				continue
			}
		}
		fmt.Printf("moved %d messages\n", moved)
		if err != nil && ctx.Err() == nil {
			return err
		}
		return m.leftovers(context.WithoutCancel(ctx))
	}
}

// leftovers says what stayed.
func (m *mover) leftovers(ctx context.Context) error {
	if len(m.bad) > 0 {
		return leftover(fmt.Sprintf("%d messages that Postrider would refuse", len(m.bad)))
	}
	counts, err := m.old.count(ctx, m.db)
	if err != nil {
		return err
	}
	if counts.pending > 0 {
		return leftover(counts.String())
	}
	return nil
}

// persistently moves a batch; it tries again what the server rolled back. Whether a commit that was not answered took
// place does not matter: what is read next tells.
func (m *mover) persistently(ctx context.Context) (int, error) {
	for try := 1; ; try++ {
		n, err := m.batch(ctx)
		if err == nil || try == tries || ctx.Err() != nil || !passes(err) {
			return n, err
		}
		fmt.Fprintf(os.Stderr, "again, because of: %v\n", err)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// passes tells whether trying again may help: a deadlock, somebody's lock, a connection that was lost.
func passes(err error) bool {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number == 1205 || told.Number == 1213
	}
	var left leftover
	var bad badMessage
	return !errors.As(err, &left) && !errors.As(err, &bad)
}

// badMessage is one that Postrider would refuse.
type badMessage struct {
	id  string
	why error
}

func (b badMessage) Error() string {
	return fmt.Sprintf("the message %q cannot be moved: %v. It and what follows stay where they are; correct or remove the "+
		"row, or pass -leave-bad to leave such rows and go on", b.id, b.why)
}

// batch moves the next messages, and tells how many.
func (m *mover) batch(ctx context.Context) (int, error) {
	// Read committed: nothing is locked but the rows that are moved, so nobody's insert waits.
	tx, err := m.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	rows, err := m.read(ctx, tx)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if err := m.insert(ctx, tx, rows); err != nil {
		return 0, err
	}
	if err := m.remove(ctx, tx, rows); err != nil {
		return 0, err
	}
	return len(rows), tx.Commit()
}

// read reads and locks the next rows. A transaction of the application that has written a row and not committed yet is
// waited for: what follows it must not overtake it.
func (m *mover) read(ctx context.Context, tx *sql.Tx) ([]row, error) {
	for {
		condition := m.old.wanted
		if len(m.bad) > 0 {
			condition += " and id not in " + places(len(m.bad))
		}
		statement := fmt.Sprintf("select id, data from %s where %s%s limit %d for update", m.old.quoted(), condition, m.old.order, m.asked.batch)
		found, err := tx.QueryContext(ctx, statement, m.bad...)
		if err != nil {
			return nil, err
		}
		rows, bad, err := m.translated(found)
		if err != nil || len(rows) > 0 || bad == 0 {
			return rows, err
		}
		// All of them were bad: the next ones.
	}
}

func (m *mover) translated(found *sql.Rows) (rows []row, bad int, err error) {
	defer found.Close()
	for found.Next() {
		var id string
		var data []byte
		if err := found.Scan(&id, &data); err != nil {
			return nil, bad, err
		}
		r, why := translate(id, data, m.asked.keyOfKeyless)
		if why == nil {
			rows = append(rows, r)
			continue
		}
		if !m.asked.leaveBad {
			return nil, bad, badMessage{id, why}
		}
		if len(m.bad) == mostBad {
			return nil, bad, leftover(fmt.Sprintf("more than %d messages that Postrider would refuse: look what is wrong with them", mostBad))
		}
		fmt.Fprintf(os.Stderr, "left %q: %v\n", id, why)
		m.bad = append(m.bad, id)
		bad++
	}
	return rows, bad, found.Err()
}

// insert writes them one by one, in their order: a statement for many would be too long for the server.
func (m *mover) insert(ctx context.Context, tx *sql.Tx, rows []row) error {
	enqueue, err := tx.PrepareContext(ctx, "insert into "+m.asked.to.quoted()+" (message_id, topic, `key`, payload, headers) values (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer enqueue.Close()
	for _, r := range rows {
		if _, err := enqueue.ExecContext(ctx, r.id, r.topic, r.key, r.payload, r.headers); err != nil {
			return fmt.Errorf("the message %q: %w", r.id, err)
		}
	}
	return nil
}

// remove takes exactly these rows from go-outbox's table. They stand at its begin: with a limit the server stops there,
// and does not walk a table without a key to its end.
func (m *mover) remove(ctx context.Context, tx *sql.Tx, rows []row) error {
	ids := make([]any, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	done, err := tx.ExecContext(ctx, fmt.Sprintf("delete from %s where id in %s limit %d", m.old.quoted(), places(len(ids)), len(ids)), ids...)
	if err != nil {
		return err
	}
	removed, err := done.RowsAffected()
	if err == nil && removed != int64(len(rows)) {
		err = leftover(fmt.Sprintf("%d of %d rows could be removed, so nothing of this batch was moved: an id stands twice there", removed, len(rows)))
	}
	return err
}

func places(n int) string {
	return "(?" + strings.Repeat(", ?", n-1) + ")"
}

// rehearse reads everything that would be moved, and says what could not.
func rehearse(ctx context.Context, db *sql.DB, asked options, old oldTable) error {
	found, err := db.QueryContext(ctx, "select id, data from "+old.quoted()+" where "+old.wanted+old.order)
	if err != nil {
		return err
	}
	defer found.Close()
	topics, bad := map[string]int{}, 0
	for found.Next() {
		var id string
		var data []byte
		if err := found.Scan(&id, &data); err != nil {
			return err
		}
		r, why := translate(id, data, asked.keyOfKeyless)
		if why != nil {
			fmt.Printf("would refuse %q: %v\n", id, why)
			bad++
			continue
		}
		topics[r.topic]++
	}
	if err := found.Err(); err != nil {
		return err
	}
	for topic, n := range topics {
		fmt.Printf("would move %d of %s\n", n, topic)
	}
	if bad > 0 {
		return leftover(fmt.Sprintf("nothing was moved; %d messages would be refused", bad))
	}
	return nil
}
