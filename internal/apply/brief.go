// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"unicode/utf8"
)

// maxWords is how many bytes of an error are kept. A webhook may deny with megabytes; they would go into memory, events and the status, and etcd
// takes no object of more than 1.5 MiB.
const maxWords = 1 << 10

// Brief is err with at most maxWords of its text. It is called where an answer of the API server comes in.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= maxWords {
		return err
	}
	end := maxWords
	for end > maxWords-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return &brief{text: fmt.Sprintf("%s... (cut, %d bytes)", text[:end], len(text)), err: err}
}

// brief is an error with a shorter text.
type brief struct {
	text string
	err  error
}

// Error implements error.
func (b *brief) Error() string { return b.text }

// Unwrap is the error with the whole text.
func (b *brief) Unwrap() error { return b.err }
