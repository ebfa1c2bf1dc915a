// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"testing"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzFile writes over a part of a store, or cuts it short: what is in it is given as it was written, or set aside.
func FuzzFile(f *testing.F) {
	whole := image(f)
	for at := uint32(0); at < 3*4096; at += 1021 {
		f.Add(at, []byte("\x00\x00\x00\x01\xff\xff\xff\xff\x02\x00"), uint32(len(whole)))
	}
	f.Add(uint32(0), []byte{}, uint32(5000))
	f.Fuzz(func(t *testing.T, at uint32, over []byte, length uint32) {
		data := append([]byte{}, whole[:min(int(length), len(whole))]...)
		if int(at) < len(data) {
			copy(data[at:], over)
		}
		usable(t, "a file that was written over", data)
	})
}

// FuzzValues puts values with a right checksum where pods and decisions are, which this agent has never written: another version of it has, or
// somebody who knows how. The agent reads them, or sets them aside, and goes on.
func FuzzValues(f *testing.F) {
	f.Add("default/a", []byte(`{"namespace":"default","name":"a","uid":"u1","made":"2026-01-01T00:00:00Z"}`), []byte(`{"metadata":{"name":"a"}}`))
	f.Add("", []byte(`{"made":"yesterday"}`), []byte(`{"metadata":[]}`))
	f.Add("a", []byte(`null`), []byte(`null`))
	f.Add("default/a/b", []byte(`{"namespace":7}`), []byte(`{"spec":{"containers":{}}}`))
	f.Add("default/a", []byte(`{`), []byte(``))
	f.Fuzz(func(t *testing.T, key string, decided, pod []byte) {
		b := newBench(t)
		s := b.open()
		mustSave(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !plant(t, b.file(), key, map[string][]byte{bucketDecisions: decided, bucketPods: pod}) {
			t.Skip("no key of this library")
		}
		s = b.open()
		// What a reader finds is wrong it says, and then it is gone.
		_, _ = s.Decisions()
		_, _, _ = s.Pods()
		name := types.NamespacedName{Namespace: "default", Name: "a"}
		_, _ = s.Decision(name)
		if _, err := s.Decisions(); err != nil {
			t.Errorf("decisions: %v", err)
		}
		if _, seen, err := s.Pods(); err != nil || seen == (len(b.said) > 0) {
			t.Errorf("pods: seen %t, %v; said %q", seen, err, b.said)
		}
		d := decision("u9", "r9", 9)
		if err := s.Decide(d); err != nil {
			t.Errorf("deciding: %v", err)
		}
		if got, err := s.Decision(name); err != nil || got == nil || *got != d {
			t.Errorf("the decision is %+v, %v", got, err)
		}
		if err := s.SavePods([]*corev1.Pod{}); err != nil {
			t.Errorf("saving: %v", err)
		}
		if got := names(t, s); got != "" {
			t.Errorf("afterwards there are the pods %q", got)
		}
	})
}

// plant writes values into a store, with their checksums; false if the library refuses the key.
func plant(t *testing.T, file, key string, values map[string][]byte) bool {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: lockTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return db.Update(func(tx *bbolt.Tx) error {
		for bucket, value := range values {
			data := append(binary.BigEndian.AppendUint32(nil, checksum(value)), value...)
			if err := tx.Bucket([]byte(bucket)).Put([]byte(key), data); err != nil {
				return err
			}
		}
		return nil
	}) == nil
}
