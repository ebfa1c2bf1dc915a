// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// The file format of bbolt: pages of one size, each with a header; branch and leaf pages have an element for each
// child. The first two pages alternately describe the file.
const (
	headerLength  = 16
	elementLength = 16
	metaLength    = 64
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagBucket    = 0x01 // in an element of a leaf page
	noFreelist    = 1<<64 - 1
	countFollows  = 0xFFFF
)

// sound checks that the pages of a file form a tree. bbolt has no such check: if a page is its own child, bbolt, and
// its own Check, use up all memory. The format cannot change, because an older agent must be able to read it. bbolt
// reads only the first two pages of a file that is opened read-only.
func sound(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil // bbolt creates the file
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return checkPages(data, uint64(db.Info().PageSize), uint64(tx.ID()))
	})
	return errors.Join(err, db.Close())
}

// checkPages traverses the pages of a file at a transaction.
func checkPages(data []byte, size, transaction uint64) error {
	w := walk{data: data, size: size, seen: map[uint64]bool{}}
	at := transaction % 2 * size
	if at+headerLength+metaLength > uint64(len(data)) {
		return &damage{errors.New("the file is too short")}
	}
	meta := data[at+headerLength:]
	if binary.LittleEndian.Uint64(meta[48:]) != transaction {
		return &damage{fmt.Errorf("page %d is not of the transaction %d", transaction%2, transaction)}
	}
	if err := errors.Join(w.page(binary.LittleEndian.Uint64(meta[16:])), w.free(binary.LittleEndian.Uint64(meta[32:]))); err != nil {
		return &damage{err}
	}
	return nil
}

// walk is the traversal of a file, with the visited pages.
type walk struct {
	data []byte
	size uint64
	seen map[uint64]bool
}

// at returns a page with its overflow pages.
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

// page visits a page and its descendants.
func (w *walk) page(id uint64) error {
	if w.seen[id] {
		return fmt.Errorf("page %d has two parents", id)
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

// bucket visits the bucket in an element of a leaf page, if there is one: it has its own pages, or is small and stored
// inline as a leaf page.
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
		return errors.New("a small bucket is not a leaf")
	}
	return nil
}

// free checks the length of the list of free pages.
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
		return fmt.Errorf("the list of free pages has %d entries and is too short for them", length)
	}
	return nil
}
