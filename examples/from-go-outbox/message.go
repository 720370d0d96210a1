package main

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// message is what go-outbox encodes into the column data. Gob knows fields by their names, so the type need not be
// go-outbox's own.
type message struct {
	Key     string
	Headers map[string]string
	Body    []byte
	Topic   string
}

// What Postrider promises about messages: docs/sql.md. A row that breaks it would become a dead letter there.
var (
	ids        = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)
	topics     = regexp.MustCompile(`^[A-Za-z0-9_:/-]+([.][A-Za-z0-9_:/-]+)*$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
)

const (
	longestTopic  = 255
	longestKey    = 512
	longestHeader = 8192
	mostHeaders   = 64
)

// row is a message as Postrider's table takes it.
type row struct {
	id      string
	topic   string
	key     *string
	payload []byte
	headers *string
}

// translate reads a row of go-outbox's table. The error says what Postrider would refuse.
func translate(id string, data []byte, keyOfKeyless string) (row, error) {
	var m message
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&m); err != nil {
		return row{}, fmt.Errorf("data is no message of go-outbox: %w", err)
	}
	if !ids.MatchString(id) {
		return row{}, fmt.Errorf("the id is no UUID")
	}
	if len(m.Topic) > longestTopic || !topics.MatchString(m.Topic) {
		return row{}, fmt.Errorf("the topic %.80q is not valid: words of letters, digits, _ - : / joined by single dots", m.Topic)
	}
	r := row{id: id, topic: m.Topic, payload: m.Body}
	if m.Body == nil {
		r.payload = []byte{}
	}
	key := m.Key
	if key == "" {
		key = keyOfKeyless
	}
	if err := checkKey(key); err != nil {
		return row{}, err
	}
	if key != "" {
		r.key = &key
	}
	if len(m.Headers) == 0 {
		return r, nil
	}
	if err := checkHeaders(m.Headers); err != nil {
		return row{}, err
	}
	headers, err := json.Marshal(m.Headers)
	if err != nil {
		return row{}, err
	}
	text := string(headers)
	r.headers = &text
	return r, nil
}

func checkKey(key string) error {
	if len(key) > longestKey || !clean(key) {
		return fmt.Errorf("the key is not valid: 1 to %d bytes of UTF-8 without control characters", longestKey)
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	if len(headers) > mostHeaders {
		return fmt.Errorf("%d headers, at most %d", len(headers), mostHeaders)
	}
	for name, value := range headers {
		if !headerName.MatchString(name) || strings.HasPrefix(strings.ToLower(name), "postrider-") {
			return fmt.Errorf("the header name %.80q is not valid: letters, digits and !#$%%&'*+.^_`|~-, not postrider-", name)
		}
		if len(value) > longestHeader || !clean(strings.ReplaceAll(value, "\t", "")) {
			return fmt.Errorf("the value of the header %q is not valid: at most %d bytes of UTF-8 without control characters", name, longestHeader)
		}
	}
	return nil
}

func clean(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}
