// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// shortestToken is how long a token has to be that somebody else has made.
const shortestToken = 16

// localToken reads the token of the owner of the node, and makes one if there is none. A file that others can read is refused: what
// they have read they still know after its mode was mended.
func localToken(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return readToken(path)
	case err != nil:
		return "", fmt.Errorf("making the token of the node: %w", err)
	}
	token := rand.Text() + rand.Text()
	_, err = file.WriteString(token + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("writing the token of the node: %w", err), os.Remove(path))
	}
	return token, nil
}

func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("looking at the token of the node: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no regular file: remove it, or give another --token-file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others can read %s (its mode is %#o): remove it, and a new token is made, which nobody knows yet", path, info.Mode().Perm())
	case known && int(owner.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to the user %d, and the agent is %d: remove it, or give another --token-file", path, owner.Uid, os.Geteuid())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token of the node: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < shortestToken {
		return "", fmt.Errorf("the token in %s has %d characters, and at least %d make it safe: remove the file, and a new one is made", path, len(token), shortestToken)
	}
	return token, nil
}
