// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long the agent waits for the lock of the file, for example of the previous agent.
const lockTimeout = 10 * time.Second

// damage is an error that means that the file is corrupt.
type damage struct{ cause error }

func (d *damage) Error() string { return d.cause.Error() }
func (d *damage) Unwrap() error { return d.cause }

// guarded calls a function that uses the mapped file. A panic, or a fault of a missing page, becomes a damage error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &damage{fmt.Errorf("the file is damaged: %v", r)}
		}
	}()
	return f()
}

// open opens a file and reads all of it once. If the content is corrupt, the error is damage.
func open(path string) (*bbolt.DB, error) {
	var db *bbolt.DB
	err := guarded(func() (err error) {
		if err := sound(path); err != nil {
			return err
		}
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout})
		return err
	})
	if db == nil || err != nil {
		return nil, openError(path, err)
	}
	err = guarded(func() error { return db.View(check) })
	if err == nil {
		err = guarded(func() error { return db.Update(makeBuckets) })
	}
	if err != nil {
		_ = db.Close() // it was opened, so Close does not block, and its error is not needed
		return nil, err
	}
	return db, nil
}

// openError distinguishes damage from a file that cannot be opened: bbolt has no common type for corrupt files.
func openError(path string, err error) error {
	pathError, number := (*os.PathError)(nil), syscall.Errno(0)
	broken := (*damage)(nil)
	switch {
	case errors.As(err, &broken):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("opening %s: another process has locked it for %v: stop it, or use another directory", path, lockTimeout)
	case errors.As(err, &pathError), errors.As(err, &number):
		return fmt.Errorf("opening the store: %w", err)
	}
	return &damage{err}
}

// check reads everything.
func check(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if err := decode(v, &json.RawMessage{}); err != nil {
				return &damage{fmt.Errorf("%s of %s: %w", k, name, err)}
			}
			return nil
		})
	})
}

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range []string{bucketAbout, bucketPods, bucketDecisions} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// encode encodes a value after its checksum.
func encode(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, checksum(data)), data...), nil
}

func decode(data []byte, into any) error {
	const length = 4
	if len(data) < length || binary.BigEndian.Uint32(data) != checksum(data[length:]) {
		return errors.New("the checksum is wrong")
	}
	return json.Unmarshal(data[length:], into)
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
