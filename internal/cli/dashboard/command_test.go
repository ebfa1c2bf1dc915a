// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

func command(o *options.Options) *cobra.Command { return New(o, program) }

// changing are the port and the token of a URL.
var changing = regexp.MustCompile(`:[0-9]+/#token=[\w-]{43}`)

// It prints one line, serves the page, and ends with its context, also while a page is followed.
func TestCommand(t *testing.T) {
	cluster := fakecluster.New(t, roll().Objects(t)...)
	out, in := io.Pipe()
	cluster.Options.Out = in
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.RunUntil(ctx, command, "--listen", "127.0.0.1:0") }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, token, _ := strings.Cut(strings.TrimSpace(line), "#token=")
	send := func(method, path, body string, cookies []*http.Cookie) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, "1")
		r.Header.Set("Content-Type", "application/json")
		for _, c := range cookies {
			r.AddCookie(c)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	session := send(http.MethodPost, "api/session", `{"token": "`+token+`"}`, nil) //nolint:bodyclose // send closes it with the test
	if session.StatusCode != http.StatusNoContent {
		t.Fatalf("the token is answered with %s", session.Status)
	}
	stream := send(http.MethodGet, "api/sets/stream", "", session.Cookies()) //nolint:bodyclose // send closes it with the test
	if first, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || !strings.Contains(first, `"default/ads/agent"`) {
		t.Errorf("the stream begins with %q, %v", first, err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	screen := "$ kubectl everynode dashboard\n" + changing.ReplaceAllString(line, ":8790/#token=TOKEN") + cluster.Err.String()
	fakecluster.Golden(t, *update, "dashboard.txt", screen)
}

func TestCommandThatCannotServe(t *testing.T) {
	cluster := fakecluster.New(t)
	var listening net.ListenConfig
	taken, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for line, want := range map[string]string{
		"--listen " + taken.Addr().String(): "choose another port with --listen",
		"--listen 0.0.0.0:0":                "write why you need it in --expose-because",
		"-o json":                           "leave --output json out",
		"agent":                             "takes no arguments",
		"--listen 127.0.0.1:0 --namespace kube-system": `ask for the verb "list" on "nodes"`,
	} {
		cluster.Denied = strings.Contains(line, "kube-system")
		if err := cluster.Run(t, command, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
