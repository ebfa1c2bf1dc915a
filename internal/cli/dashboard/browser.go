// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
)

// browse opens the page in the browser. The URL is in a file that only the user can read: other users of the machine see the arguments of programs. The
// file is removed with the program.
func (a *asked) browse(ctx context.Context, url string) (closing func()) {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	path, err := exec.LookPath(opener)
	if err != nil {
		return func() {} // the URL has been printed
	}
	file, err := os.CreateTemp("", "everynode-dashboard-*.html")
	if err != nil {
		a.Note("the browser is not opened: %v", err)
		return func() {}
	}
	closing = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(url))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = exec.CommandContext(ctx, path, file.Name()).Start()
	}
	if err != nil {
		a.Note("the browser is not opened: %v", err)
	}
	return closing
}
