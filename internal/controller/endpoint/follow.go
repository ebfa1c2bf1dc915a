// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// followInterval is how often a file is compared with what was read last. The kubelet replaces the files of a Secret by a symbolic link to another directory, which
// watches of a file do not show.
const followInterval = 10 * time.Second

// Follower reads a file again when its content changes, or that of a file which it names. If the new content is wrong, the earlier one counts until it is corrected.
type Follower struct {
	// Flag names the file in messages and metrics, and File is where it is.
	Flag, File string
	Clock      clock.WithTicker
	// Names are the files that a content names.
	Names func(content []byte) []string
	// Use applies a content, or returns an error; then nothing has changed.
	Use func(content []byte) error
	// Current records whether the content counts.
	Current func(flag string, is bool)

	seen [sha256.Size]byte
}

// Run follows the file until ctx ends. It reads the file at once: the process may have waited for the lease for long.
func (f *Follower) Run(ctx context.Context) {
	ticker := f.Clock.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		f.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// look reads the file, and uses it if it has changed.
func (f *Follower) look(ctx context.Context) {
	content, err := os.ReadFile(f.File)
	seen := f.sum(content, err)
	if seen == f.seen {
		return
	}
	first := f.seen == [sha256.Size]byte{}
	f.seen = seen
	if err == nil {
		err = f.Use(content)
	}
	f.Current(f.Flag, err == nil)
	log := klog.FromContext(ctx).WithValues("flag", "--"+f.Flag, "file", f.File)
	switch {
	case err != nil:
		log.Error(err, "The changed file has a mistake; its earlier content counts until the file is corrected")
	case !first:
		log.Info("Read a changed file")
	}
}

// sum identifies a content, with those of the files that it names, or the error of reading it.
func (f *Follower) sum(content []byte, err error) (sum [sha256.Size]byte) {
	all := sha256.New()
	add := func(data []byte, err error) {
		if err != nil {
			data = fmt.Appendf(nil, "\x00%v", err)
		}
		_, _ = all.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data)))) // a hash takes everything
		_, _ = all.Write(data)
	}
	add(content, err)
	if err == nil {
		for _, name := range f.Names(content) {
			add(os.ReadFile(name))
		}
	}
	return [sha256.Size]byte(all.Sum(nil))
}
