// Orders and the messages about them, in one transaction each, with database/sql and Go-MySQL-Driver.
//
//	DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop go run . 500
//
// The number is the first order's. `postrider migrate --store "$DATABASE_URL"` made the outbox, and schema.sql the
// table of orders.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const (
	insert  = "insert into orders (id, customer, item) values (?, ?, ?)"
	enqueue = "insert into postrider_outbox (topic, `key`, payload, content_type, headers) values (?, ?, ?, ?, ?)"
)

type order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
}

// place writes the order and its message: both are committed, or neither.
func place(ctx context.Context, db *sql.DB, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	headers, err := json.Marshal(map[string]string{"correlation-id": strconv.FormatInt(o.ID, 10)})
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after the commit
	if _, err := tx.ExecContext(ctx, insert, o.ID, o.Customer, o.Item); err != nil {
		return err
	}
	// The key is the customer: the messages of a customer keep their order.
	if _, err := tx.ExecContext(ctx, enqueue, "orders.placed", o.Customer, payload, "application/json", string(headers)); err != nil {
		return err
	}
	return tx.Commit()
}

func connect(address string) (*sql.DB, error) {
	place, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", place.Host, strings.TrimPrefix(place.Path, "/")
	config.User = place.User.Username()
	config.Passwd, _ = place.User.Password()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("tell the number of the first order")
	}
	first, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	db, err := connect(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for number, customer := range []string{"ann-go", "bob-go", "ann-go"} {
		if err := place(context.Background(), db, order{first + int64(number), customer, "Tür"}); err != nil {
			log.Fatal(err)
		}
	}
}
