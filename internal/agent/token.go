// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// minTokenLength is the minimum length of a token that was created by users.
const minTokenLength = 16

// localToken reads the token of the owner of the node, and creates it if it does not exist. A file that other users can
// read is refused, because they may know the token even after its mode was corrected.
func localToken(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return readToken(path)
	}
	err := makeToken(path)
	if err != nil && !errors.Is(err, fs.ErrExist) { // another agent may have been faster
		return "", fmt.Errorf("creating the token of the node: %w", err)
	}
	return readToken(path)
}

// makeToken creates the token under a temporary name first: after a power failure it is complete or absent, and the
// agent creates it again.
func makeToken(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with the mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(rand.Text() + rand.Text() + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Link(file.Name(), path) // unlike a rename, this replaces nothing
	}
	return errors.Join(err, os.Remove(file.Name()))
}

func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("reading the token of the node: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file: remove it, or set another --token-file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s is readable by other users (its mode is %#o): remove it, and the agent creates a new token", path, info.Mode().Perm())
	case known && int(owner.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d, and the agent runs as user %d: remove it, or set another --token-file", path, owner.Uid, os.Geteuid())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token of the node: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minTokenLength {
		return "", fmt.Errorf("the token in %s has %d characters and must have at least %d: remove the file, and the agent creates a new one", path, len(token), minTokenLength)
	}
	return token, nil
}
