// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// FileName is the name of the file in the state directory of an agent.
const FileName = "node.db"

const (
	bucketAbout     = "about"
	bucketPods      = "pods"
	bucketDecisions = "decisions"

	// keyNode has the name of the node of the file, keySeen reports whether the pods of the node were read at least
	// once.
	keyNode = "node"
	keySeen = "seen"
)

// Options define where a store is, and for which node.
type Options struct {
	// Directory is created if it does not exist.
	Directory string
	// Node is the name of the node. A store of another node is renamed.
	Node string
	// Say is called with a message when a file was renamed. It must not call the store.
	Say func(message string)
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	path string
	node string
	say  func(string)

	mu sync.Mutex
	db *bbolt.DB
	// kept has the version of each pod on disk; nil until pods have been saved.
	kept map[string]string
}

// Open opens the store in a directory, and creates it if it does not exist.
func Open(o Options) (*Store, error) {
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the store: %w", err)
	}
	s := &Store{path: filepath.Join(o.Directory, FileName), node: o.Node, say: o.Say}
	return s, s.reopen()
}

// reopen opens the file, or a new one if it is damaged or belongs to another node.
func (s *Store) reopen() error {
	db, err := open(s.path)
	if broken := (*damage)(nil); errors.As(err, &broken) {
		if err := s.setAside(err.Error()); err != nil {
			return err
		}
		db, err = open(s.path)
	}
	if err != nil {
		return err
	}
	s.db, s.kept = db, nil
	node, err := s.readAbout()
	broken := (*damage)(nil)
	switch {
	case errors.As(err, &broken): // valid, but of another version: an older or newer agent may have written it
		return s.begin(err.Error())
	case err != nil:
		return err
	case node == "":
		return s.do(true, func(tx *bbolt.Tx) error { return put(tx, bucketAbout, keyNode, s.node) })
	case node != s.node:
		return s.begin(fmt.Sprintf("it belongs to the node %s, and this is %s", node, s.node))
	}
	return nil
}

// begin renames the open file, and opens an empty one.
func (s *Store) begin(why string) error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	if err := s.setAside(why); err != nil {
		return err
	}
	return s.reopen()
}

// readAbout returns the node of the file, and reads which pods it has.
func (s *Store) readAbout() (node string, err error) {
	err = s.do(false, func(tx *bbolt.Tx) error {
		seen := false
		if err := errors.Join(get(tx, bucketAbout, keyNode, &node), get(tx, bucketAbout, keySeen, &seen)); err != nil || !seen {
			return err
		}
		s.kept = map[string]string{}
		return each(tx, bucketPods, func(key string, pod *corev1.Pod) { s.kept[key] = version(pod) })
	})
	return node, err
}

// setAside renames the file, so that it can be examined. Only the last such file is kept.
func (s *Store) setAside(why string) error {
	aside := s.path + ".aside"
	if err := os.Rename(s.path, aside); err != nil {
		return fmt.Errorf("renaming the damaged store: %w", err)
	}
	s.say(fmt.Sprintf("The store %s was renamed to %s: %s. The pods and decisions in it are lost.", s.path, aside, why))
	return nil
}

// Close closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return guarded(s.db.Close)
}

// locked is attempt for callers that do not hold the lock.
func (s *Store) locked(write bool, f func(tx *bbolt.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt(write, f)
}

// attempt executes one transaction. After damage, the store continues with an empty file.
func (s *Store) attempt(write bool, f func(tx *bbolt.Tx) error) error {
	err := s.do(write, f)
	if broken := (*damage)(nil); !errors.As(err, &broken) {
		return err
	}
	// The database is not closed: after a panic, its locks may be held forever. The new one has its own file.
	return errors.Join(err, s.setAside(err.Error()), s.reopen())
}

// do executes one transaction.
func (s *Store) do(write bool, f func(tx *bbolt.Tx) error) error {
	return guarded(func() error {
		if write {
			return s.db.Update(f)
		}
		return s.db.View(f)
	})
}

// SavePods replaces the pods on disk. Only changes are written.
func (s *Store) SavePods(pods []*corev1.Pod) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]string, len(pods))
	for _, pod := range pods {
		next[podKey(pod)] = version(pod)
	}
	if s.kept != nil && maps.Equal(s.kept, next) {
		return nil
	}
	err := s.attempt(true, func(tx *bbolt.Tx) error {
		errs := []error{put(tx, bucketAbout, keySeen, true)}
		if s.kept == nil {
			// After damage there may be pods that would otherwise stay forever.
			errs = append(errs, tx.DeleteBucket([]byte(bucketPods)), makeBuckets(tx))
		}
		for _, pod := range pods {
			if key := podKey(pod); s.kept[key] != next[key] {
				errs = append(errs, put(tx, bucketPods, key, pod))
			}
		}
		for key := range s.kept {
			if _, stays := next[key]; !stays {
				errs = append(errs, tx.Bucket([]byte(bucketPods)).Delete([]byte(key)))
			}
		}
		return errors.Join(errs...)
	})
	if err == nil {
		s.kept = next
	}
	return err
}

// Pods returns the pods that were saved last, sorted by namespace and name. seen reports whether pods have been saved
// at all.
func (s *Store) Pods() (pods []*corev1.Pod, seen bool, err error) {
	err = s.locked(false, func(tx *bbolt.Tx) error {
		if err := get(tx, bucketAbout, keySeen, &seen); err != nil {
			return err
		}
		return each(tx, bucketPods, func(_ string, pod *corev1.Pod) { pods = append(pods, pod) })
	})
	return pods, seen, err
}

// Decisions returns all decisions, sorted by namespace and name of their pods.
func (s *Store) Decisions() (all []v2.Decision, err error) {
	err = s.locked(false, func(tx *bbolt.Tx) error {
		return each(tx, bucketDecisions, func(_ string, d *v2.Decision) { all = append(all, *d) })
	})
	return all, err
}

// Decision returns the decision about a pod, or nil.
func (s *Store) Decision(pod types.NamespacedName) (d *v2.Decision, err error) {
	err = s.locked(false, func(tx *bbolt.Tx) error { return get(tx, bucketDecisions, pod.String(), &d) })
	return d, err
}

// Decide stores a decision, and replaces an earlier one about the same pod. When it returns without an error, the
// decision is on disk.
func (s *Store) Decide(d v2.Decision) error {
	return s.locked(true, func(tx *bbolt.Tx) error { return put(tx, bucketDecisions, d.Namespace+"/"+d.Name, d) })
}

// Forget removes the decision about a pod if it is the same one: there may be a newer one.
func (s *Store) Forget(d v2.Decision) error {
	return s.locked(true, func(tx *bbolt.Tx) error {
		found := (*v2.Decision)(nil)
		key := d.Namespace + "/" + d.Name
		if err := get(tx, bucketDecisions, key, &found); err != nil || found == nil {
			return err
		}
		if found.UID != d.UID || found.Revision != d.Revision || !found.Made.Equal(d.Made) {
			return nil
		}
		return tx.Bucket([]byte(bucketDecisions)).Delete([]byte(key))
	})
}

func podKey(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func version(pod *corev1.Pod) string { return string(pod.UID) + "/" + pod.ResourceVersion }

func put(tx *bbolt.Tx, bucket, key string, value any) error {
	data, err := encode(value)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(bucket)).Put([]byte(key), data)
}

// get reads one value; if it does not exist, into is not changed.
func get(tx *bbolt.Tx, bucket, key string, into any) error {
	data := tx.Bucket([]byte(bucket)).Get([]byte(key))
	if data == nil {
		return nil
	}
	if err := decode(data, into); err != nil {
		return &damage{fmt.Errorf("%s of %s: %w", key, bucket, err)}
	}
	return nil
}

// each reads all values of a bucket, in the order of their keys.
func each[T any](tx *bbolt.Tx, bucket string, f func(key string, value *T)) error {
	return tx.Bucket([]byte(bucket)).ForEach(func(k, data []byte) error {
		value := new(T)
		if err := decode(data, value); err != nil {
			return &damage{fmt.Errorf("%s of %s: %w", k, bucket, err)}
		}
		f(string(k), value)
		return nil
	})
}
