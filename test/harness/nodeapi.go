// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// NodeAPIAddress is the address of the API of a node in the pages.
const NodeAPIAddress = "127.0.0.1:10267"

// TypeNodeAPI runs a command that serves the API of a node, and returns its address and the token of the node's owner.
// If NodeAPIAddress is in use, it uses another port.
func (d *Desk) TypeNodeAPI(line string) (address, token string) {
	d.t.Helper()
	if listener, err := net.Listen("tcp", NodeAPIAddress); err != nil {
		d.t.Logf("%s is taken (%v): any other port serves", NodeAPIAddress, err)
		line = strings.ReplaceAll(line, NodeAPIAddress, "127.0.0.1:0")
	} else if err := listener.Close(); err != nil {
		d.t.Fatal(err)
	}
	printed := regexp.MustCompile(`^http://(\S+)\ntoken of the owner in (\S+)\n$`).FindStringSubmatch(d.Type(line))
	if printed == nil {
		d.t.Fatal("it does not print where it is and which file holds the token")
	}
	raw, err := os.ReadFile(printed[2])
	if err != nil {
		d.t.Fatal(err)
	}
	return printed[1], strings.TrimSpace(string(raw))
}

// Curl does what the curl command of a page does, because not every machine has curl. It sends the token if the command
// does.
func (d *Desk) Curl(line, token string) (code int, body string, err error) {
	method := http.MethodGet
	words := strings.Fields(line)
	for i, word := range words {
		if word == "-X" {
			method = words[i+1]
		}
	}
	url := "http://" + strings.Trim(words[len(words)-1], `"`)
	request, err := http.NewRequestWithContext(d.t.Context(), method, url, nil)
	if err != nil {
		return 0, "", err
	}
	if strings.Contains(line, `-H "Authorization: Bearer $TOKEN"`) {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	raw, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(raw), errors.Join(err, answer.Body.Close())
}
