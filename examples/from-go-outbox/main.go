// from-go-outbox moves the messages that go-outbox (github.com/pkritiotis/go-outbox) has not delivered yet from its
// table into the outbox of Postrider: in their order, with their ids, each exactly once whatever crashes meanwhile.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

const help = `from-go-outbox [flags]

Moves what go-outbox has not delivered yet into the outbox of Postrider. Both tables are in one database server; its
address is the variable DATABASE_URL. Each batch is inserted there and removed here in one transaction, so it may be
killed and run again at any moment.

Stop every dispatcher of go-outbox first. README.md has the steps of a switch without downtime.

examples:
  export DATABASE_URL='mysql://owner:secret@127.0.0.1:3306/shop'
  from-go-outbox -dry-run                 what would be moved, and what could not
  from-go-outbox                          moves it, and ends
  from-go-outbox -follow 200ms            and goes on with what is still written there, until it is stopped
  from-go-outbox -take-locked             also what a dispatcher that is gone for good had locked

flags:
`

const exits = `
exit codes: 0 nothing is left to move, 1 it failed and can be run again, 2 a wrong flag,
            3 something was left where it is, and why is said
`

// What is asked for.
type options struct {
	from         table
	to           table
	batch        int
	dryRun       bool
	follow       time.Duration
	takeLocked   bool
	takeGivenUp  bool
	leaveBad     bool
	keyOfKeyless string
}

// Something stays where it is: the person who runs this decides.
type leftover string

func (l leftover) Error() string { return string(l) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	asked, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(2)
		}
		return
	}
	err = run(ctx, asked)
	var left leftover
	switch {
	case errors.As(err, &left):
		fmt.Fprintln(os.Stderr, "left:", left)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(words []string) (options, error) {
	flags := flag.NewFlagSet("from-go-outbox", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), exits)
	}
	from := flags.String("table", "outbox", "go-outbox's `table`, or database.table")
	prefix := flags.String("prefix", "postrider_", "what the names of Postrider's tables begin with (outbox.prefix)")
	var asked options
	flags.IntVar(&asked.batch, "batch", 200, "messages per transaction, 1 to 1000")
	flags.BoolVar(&asked.dryRun, "dry-run", false, "reads everything, writes nothing")
	flags.DurationVar(&asked.follow, "follow", 0, "when nothing is left, wait so long, look again, and end only when stopped")
	flags.BoolVar(&asked.takeLocked, "take-locked", false, "also messages that a dispatcher has locked: only when none runs any more")
	flags.BoolVar(&asked.takeGivenUp, "take-given-up", false, "also messages that go-outbox gave up (state 2); they are tried anew")
	flags.BoolVar(&asked.leaveBad, "leave-bad", false, "leave messages that Postrider would refuse, instead of ending at the first")
	flags.StringVar(&asked.keyOfKeyless, "key-of-keyless", "", "the `key` for messages that have none, so that they keep one order")
	if err := flags.Parse(words); err != nil {
		return asked, err
	}
	if flags.NArg() > 0 {
		return asked, fmt.Errorf("unexpected %q; -help lists the flags", flags.Arg(0))
	}
	if asked.batch < 1 || asked.batch > 1000 {
		return asked, errors.New("-batch takes a number from 1 to 1000")
	}
	var err error
	if asked.from, err = parseTable(*from); err != nil {
		return asked, fmt.Errorf("-table: %w", err)
	}
	if asked.to, err = parseTable(*prefix + "outbox"); err != nil {
		return asked, fmt.Errorf("-prefix: %w", err)
	}
	if err := checkKey(asked.keyOfKeyless); err != nil {
		return asked, fmt.Errorf("-key-of-keyless: %w", err)
	}
	return asked, nil
}

func run(ctx context.Context, asked options) error {
	db, err := connect(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	old, err := look(ctx, db, asked)
	if err != nil {
		return err
	}
	counts, err := old.count(ctx, db)
	if err != nil {
		return err
	}
	fmt.Println(counts)
	if asked.dryRun {
		return rehearse(ctx, db, asked, old)
	}
	if counts.locked > 0 && !asked.takeLocked {
		return leftover(fmt.Sprintf("%d messages are locked by a dispatcher (%q, at %s UTC), and moving what follows them would "+
			"change their order; nothing was moved. Stop every dispatcher, and when none runs any more, run this again with "+
			"-take-locked", counts.locked, counts.lockedBy.String, counts.lockedOn.String))
	}
	return move(ctx, db, asked, old)
}

// connect opens the database at an address such as mysql://user:password@127.0.0.1:3306/shop.
func connect(address string) (*sql.DB, error) {
	place, err := url.Parse(address)
	if err != nil || place.Scheme != "mysql" && place.Scheme != "mariadb" || place.User == nil || len(place.Path) < 2 {
		return nil, errors.New("DATABASE_URL is no address of a database; expected mysql://user:password@host:3306/database")
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", place.Host, strings.TrimPrefix(place.Path, "/")
	config.User = place.User.Username()
	config.Passwd, _ = place.User.Password()
	config.TLSConfig = place.Query().Get("tls")
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	db := sql.OpenDB(connector)
	// One connection: nothing here goes beside anything else.
	db.SetMaxOpenConns(1)
	return db, nil
}
