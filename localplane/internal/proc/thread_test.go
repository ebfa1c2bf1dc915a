// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnThreadIsNeverTheFirstOne(t *testing.T) {
	const many = 200
	for range many {
		OwnThread(func() {
			if unix.Gettid() == os.Getpid() {
				t.Error("runs on the first thread of the process")
			}
		})
	}
}

func TestOwnThreadsAreApart(t *testing.T) {
	const many = 20
	threads := make(chan int, many)
	var all, done sync.WaitGroup
	all.Add(many)
	for range many {
		done.Go(func() {
			OwnThread(func() {
				threads <- unix.Gettid()
				all.Done()
				all.Wait()
			})
		})
	}
	done.Wait()
	close(threads)
	seen := map[int]bool{}
	for thread := range threads {
		if seen[thread] {
			t.Errorf("thread %d runs two functions at once", thread)
		}
		seen[thread] = true
	}
}
