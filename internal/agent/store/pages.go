// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"
	"time"

	berrors "go.etcd.io/bbolt/errors"
)

// How bbolt lays out a file: pages of one size, each with a header; in a branch page and in a leaf page an element of that length for each
// child. Two meta pages come first, and the newer one that is whole says where the root is and which pages are free.
const (
	headerLength  = 16
	elementLength = 16
	metaLength    = 64
	metaMagic     = 0xED0CDAED
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagBucket    = 0x01 // of an element of a leaf page
	noFreelist    = 1<<64 - 1
	countFollows  = 0xFFFF
)

// openSound opens a file for bbolt, once nobody else has it, if its pages can be walked through: bbolt does not count its steps, so a page that
// is its own child takes all memory there is, and no panic tells.
func openSound(name string, flag int, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	err = lock(file)
	if err == nil {
		err = sound(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lock takes the lock that bbolt takes; of one file that is opened once it can be taken twice.
func lock(file *os.File) error {
	for enough := time.After(lockTimeout); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-enough:
			return berrors.ErrTimeout
		}
	}
}

// sound walks through all pages. Without a whole meta page there is nothing to walk through, and bbolt says what is wrong.
func sound(file *os.File) error {
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	w := walk{data: data, seen: map[uint64]bool{}}
	root, free, found := w.meta()
	if !found {
		return nil
	}
	if err := errors.Join(w.page(root), w.free(free)); err != nil {
		return &damage{err}
	}
	return nil
}

// walk is a walk through a file, and the pages that it has been at.
type walk struct {
	data []byte
	size uint64
	seen map[uint64]bool
}

// meta finds the meta page that counts, and with it the size of pages.
func (w *walk) meta() (root, free uint64, found bool) {
	newest := uint64(0)
	// The second meta page is where the first says, or where it usually is.
	sizes := []uint64{0, uint64(os.Getpagesize())}
	if len(w.data) >= headerLength+metaLength {
		sizes = append(sizes, uint64(binary.LittleEndian.Uint32(w.data[headerLength+8:])))
	}
	for _, at := range sizes {
		if at+headerLength+metaLength > uint64(len(w.data)) {
			continue
		}
		meta := w.data[at+headerLength : at+headerLength+metaLength]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaLength-8]) // a hash takes everything
		transaction := binary.LittleEndian.Uint64(meta[48:])
		if binary.LittleEndian.Uint32(meta) != metaMagic || binary.LittleEndian.Uint64(meta[56:]) != sum.Sum64() || found && transaction < newest {
			continue
		}
		found, newest = true, transaction
		w.size = uint64(binary.LittleEndian.Uint32(meta[8:]))
		root, free = binary.LittleEndian.Uint64(meta[16:]), binary.LittleEndian.Uint64(meta[32:])
	}
	return root, free, found && w.size > headerLength
}

// at returns a page with the pages that belong to it.
func (w *walk) at(id uint64) (page []byte, flags, count uint16, err error) {
	pages := uint64(len(w.data)) / w.size
	if id >= pages {
		return nil, 0, 0, fmt.Errorf("page %d is beyond the end of the file", id)
	}
	page = w.data[id*w.size:]
	more := uint64(binary.LittleEndian.Uint32(page[12:]))
	if id+more >= pages {
		return nil, 0, 0, fmt.Errorf("page %d goes beyond the end of the file", id)
	}
	return page[:(more+1)*w.size], binary.LittleEndian.Uint16(page[8:]), binary.LittleEndian.Uint16(page[10:]), nil
}

// page walks through a page and all below it.
func (w *walk) page(id uint64) error {
	if w.seen[id] {
		return fmt.Errorf("two ways lead to page %d", id)
	}
	w.seen[id] = true
	page, flags, count, err := w.at(id)
	if err != nil {
		return err
	}
	if headerLength+int(count)*elementLength > len(page) {
		return fmt.Errorf("page %d is too short for its %d elements", id, count)
	}
	for i := range int(count) {
		element := page[headerLength+i*elementLength:]
		switch flags {
		case flagBranch:
			err = w.page(binary.LittleEndian.Uint64(element[8:]))
		case flagLeaf:
			err = w.bucket(element)
		default:
			err = fmt.Errorf("page %d is neither a branch nor a leaf", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket walks through the bucket that an element of a leaf page holds, if it holds one: one that has pages of its own, or a small one that is one
// leaf page by itself.
func (w *walk) bucket(element []byte) error {
	if binary.LittleEndian.Uint32(element)&flagBucket == 0 {
		return nil
	}
	from := uint64(binary.LittleEndian.Uint32(element[4:])) + uint64(binary.LittleEndian.Uint32(element[8:]))
	const length = 16
	if from+length+headerLength > uint64(len(element)) {
		return errors.New("a bucket goes beyond the end of its page")
	}
	if root := binary.LittleEndian.Uint64(element[from:]); root != 0 {
		return w.page(root)
	}
	if binary.LittleEndian.Uint16(element[from+length+8:]) != flagLeaf {
		return errors.New("a small bucket is no leaf")
	}
	return nil
}

// free makes sure that the list of free pages is as long as it says.
func (w *walk) free(id uint64) error {
	if id == noFreelist {
		return nil
	}
	page, _, count, err := w.at(id)
	if err != nil {
		return fmt.Errorf("the list of free pages: %w", err)
	}
	length := uint64(count)
	if count == countFollows {
		length = binary.LittleEndian.Uint64(page[headerLength:]) + 1
	}
	if length > uint64(len(page)-headerLength)/8 {
		return fmt.Errorf("the list of free pages has %d entries, for which it is too short", length)
	}
	return nil
}
