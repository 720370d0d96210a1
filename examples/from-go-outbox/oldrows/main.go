// oldrows writes messages exactly as go-outbox's Publisher and its MySQL store do, for the tests of the import:
//
//	DATABASE_URL=mysql://root:secret@127.0.0.1:3306/test go run ./oldrows 1000
//
// It prints each as a line of JSON, in its order.
package main

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Message is go-outbox's type, with its name and fields: both stand in the gob.
type Message struct {
	Key     string
	Headers map[string]string
	Body    []byte
	Topic   string
}

const add = `INSERT INTO outbox (id, data, state, created_on,locked_by,locked_on,processed_on,number_of_attempts,last_attempted_on,error) VALUES (?,?,?,?,?,?,?,?,?,?)`

func main() {
	count, err := strconv.Atoi(os.Args[1])
	check(err)
	db := connect(os.Getenv("DATABASE_URL"))
	defer db.Close()
	tx, err := db.Begin()
	check(err)
	out := json.NewEncoder(os.Stdout)
	for n := 0; n < count; n++ {
		id, message := newID(), nth(n)
		var data bytes.Buffer
		check(gob.NewEncoder(&data).Encode(message))
		_, err := tx.Exec(add, id, data.Bytes(), 0, time.Now().UTC(), nil, nil, nil, 0, nil, nil)
		check(err)
		check(out.Encode(map[string]any{
			"id": id, "topic": message.Topic, "key": message.Key, "payload": string(message.Body), "headers": message.Headers,
		}))
	}
	check(tx.Commit())
}

// nth varies what messages may have: every seventh is without a key, every fifth with headers, every eleventh empty.
func nth(n int) Message {
	m := Message{Key: fmt.Sprintf("key-%d", n%5), Body: []byte(fmt.Sprintf(`{"n":%d,"item":"Tür"}`, n)), Topic: fmt.Sprintf("orders.placed.%d", n%3)}
	if n%7 == 6 {
		m.Key = ""
	}
	if n%5 == 4 {
		m.Headers = map[string]string{"tenant": "blü", "nth": strconv.Itoa(n)}
	}
	if n%11 == 10 {
		m.Body = nil
	}
	return m
}

// newID is a random UUID, as go-outbox makes them.
func newID() string {
	var b [16]byte
	_, err := rand.Read(b[:])
	check(err)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func connect(address string) *sql.DB {
	place, err := url.Parse(address)
	check(err)
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", place.Host, strings.TrimPrefix(place.Path, "/")
	config.User = place.User.Username()
	config.Passwd, _ = place.User.Password()
	connector, err := mysql.NewConnector(config)
	check(err)
	return sql.OpenDB(connector)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
