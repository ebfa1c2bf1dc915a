// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/localplane"
)

// Ledger is the log of all sets of a namespace, read from etcd. A watch of the API server ends when the API server is
// killed, and events that it has not sent by then are lost. etcd numbers all changes of all objects, and a watch of
// etcd continues at the same revision, even after a restart of etcd. So a ledger is complete.
type Ledger struct {
	namespace string
	from      uint64
	client    *clientv3.Client
	cancel    context.CancelFunc
	ended     chan struct{}

	mu      sync.Mutex
	last    map[string]metav1.Object
	log     []Event
	seen    int64
	excused map[types.UID]bool
	// received is Rules.Received.
	received map[types.UID]time.Time
	rests    []Rest
	// deaths is Rules.Deaths.
	deaths []time.Time
	err    error
}

// registry is the prefix of the API server's keys.
const registry = "/registry/"

// OpenLedger starts to read.
func OpenLedger(ctx context.Context, store localplane.Store, namespace string) (*Ledger, error) {
	client, err := dial(store)
	if err != nil {
		return nil, err
	}
	l := &Ledger{namespace: namespace, client: client, ended: make(chan struct{}), last: map[string]metav1.Object{}, excused: map[types.UID]bool{}}
	if err := l.begin(ctx); err != nil {
		return nil, fmt.Errorf("reading the store of the plane: %w", err)
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.follow(ctx)
	return l, nil
}

func dial(store localplane.Store) (*clientv3.Client, error) {
	files := transport.TLSInfo{CertFile: store.Certificate, KeyFile: store.Key, TrustedCAFile: store.Authority}
	var secure *tls.Config
	secure, err := files.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the store: %w", err)
	}
	const patience = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{store.Endpoint}, TLS: secure, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("reaching the store at %s: %w", store.Endpoint, err)
	}
	return client, nil
}

// prefixes are the prefixes of the keys in a ledger.
func (l *Ledger) prefixes() []string {
	return []string{
		registry + "daemonsets/" + l.namespace + "/", registry + kruise.Group + "/" + kruise.Resource + "/" + l.namespace + "/",
		registry + "controllerrevisions/" + l.namespace + "/", registry + "minions/", registry + "pods/" + l.namespace + "/",
	}
}

// begin adds the current objects to the log, at one revision.
func (l *Ledger) begin(ctx context.Context) error {
	at := int64(0)
	for _, prefix := range l.prefixes() {
		answer, err := l.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(at))
		if err != nil {
			return err
		}
		if at == 0 {
			at = answer.Header.Revision
		}
		for _, kv := range answer.Kvs {
			if err := l.take(string(kv.Key), kv.Value, kv.ModRevision); err != nil {
				return err
			}
		}
	}
	l.from, l.seen = uint64(at), at
	return nil
}

// follow reads all changes of all objects: changes of other objects show the progress of the watch.
func (l *Ledger) follow(ctx context.Context) {
	defer close(l.ended)
	for answer := range l.client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(l.seen+1)) {
		l.mu.Lock()
		if err := answer.Err(); err != nil && ctx.Err() == nil {
			l.fail(fmt.Errorf("the watch of the store ended: %w", err))
		}
		for _, event := range answer.Events {
			value := event.Kv.Value
			if event.Type == clientv3.EventTypeDelete {
				value = nil
			}
			if err := l.take(string(event.Kv.Key), value, event.Kv.ModRevision); err != nil {
				l.fail(err)
			}
			l.seen = max(l.seen, event.Kv.ModRevision)
		}
		l.mu.Unlock()
	}
}

func (l *Ledger) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// take adds a change to the log; no value means a deletion.
func (l *Ledger) take(key string, value []byte, version int64) error {
	if !slices.ContainsFunc(l.prefixes(), func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
		return nil
	}
	event := Event{Version: uint64(version), At: time.Now(), Type: watch.Modified}
	old := l.last[key]
	switch {
	case value != nil:
		object, err := decodeStored(value)
		if err != nil {
			return fmt.Errorf("reading %s of the store: %w", key, err)
		}
		object.SetResourceVersion(fmt.Sprint(version))
		if event.Object = object; old == nil {
			event.Type = watch.Added
		}
		l.last[key] = object
	case old != nil:
		event.Type, event.Object = watch.Deleted, old
		delete(l.last, key)
	default:
		return fmt.Errorf("%s was deleted at version %d of the store, and had never been there", key, version)
	}
	l.log = append(l.log, event)
	return nil
}

// decodeStored decodes an object as the API server stores it: objects of Kubernetes as protobuf, others as JSON.
func decodeStored(value []byte) (metav1.Object, error) {
	if value[0] == '{' {
		undecoded := &unstructured.Unstructured{}
		if err := undecoded.UnmarshalJSON(value); err != nil {
			return nil, err
		}
		return decodeAdvanced(undecoded)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	return lean(object)
}

// lean removes fields that are not checked, because a ledger has a hundred thousand objects.
func lean(object runtime.Object) (metav1.Object, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		pod := &corev1.Pod{ObjectMeta: leanMeta(o.ObjectMeta)}
		if state, changed := o.Annotations[kruise.InPlaceUpdateState]; changed {
			pod.Annotations = map[string]string{kruise.InPlaceUpdateState: state}
		}
		pod.Spec.NodeName, pod.Spec.Affinity = o.Spec.NodeName, o.Spec.Affinity
		for _, c := range o.Spec.Containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
		}
		pod.Status.Phase, pod.Status.Conditions = o.Status.Phase, o.Status.Conditions
		for _, c := range o.Status.ContainerStatuses {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ContainerID: c.ContainerID, RestartCount: c.RestartCount, State: corev1.ContainerState{Running: c.State.Running},
			})
		}
		return pod, nil
	case *corev1.Node:
		o.ManagedFields, o.Status.Images = nil, nil
		return o, nil
	case *appsv1.ControllerRevision:
		return &appsv1.ControllerRevision{ObjectMeta: leanMeta(o.ObjectMeta), Revision: o.Revision}, nil
	case *appsv1.DaemonSet:
		o.ManagedFields = nil
		return o, nil
	default:
		return nil, fmt.Errorf("it is a %T", object)
	}
}

func leanMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.ManagedFields, meta.Annotations = nil, nil
	return meta
}

// Excuse marks a pod that another client than the controller deletes.
func (l *Ledger) Excuse(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.excused[uid] = true
}

// Received says when the API server received deletes of pods by the controller (Deletes).
func (l *Ledger) Received(deletes map[types.UID]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = deletes
}

// Died says when the API server or its storage ended.
func (l *Ledger) Died(at ...time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaths = append(l.deaths, at...)
}

// Finish waits until everything that has happened before is in the ledger, and closes it.
func (l *Ledger) Finish(ctx context.Context) error {
	answer, err := l.client.Get(ctx, registry, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("asking the store how far it is: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen >= answer.Header.Revision, l.err
	})
	l.cancel()
	<-l.ended
	if closeErr := l.client.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("the ledger is not complete up to version %d: %w", answer.Header.Revision, err)
	}
	return nil
}

// Created returns how many pods of the namespace have been created so far.
func (l *Ledger) Created() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, event := range l.log {
		if _, isPod := event.Object.(*corev1.Pod); isPod && event.Type == watch.Added {
			count++
		}
	}
	return count
}

// Judge checks one set of the namespace. Nodes may fail (Rules.Outages); limit applies to a set whose own strategy does not define one.
func (l *Ledger) Judge(set string, limit int) Report {
	log, rules := l.Of(set, limit)
	return Judge(log, rules)
}

// Of returns the part of the ledger about a set, and its rules.
func (l *Ledger) Of(set string, limit int) ([]Event, Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var log []Event
	for _, event := range l.log {
		if concerns(event.Object, set) {
			log = append(log, event)
		}
	}
	return log, Rules{
		Namespace: l.namespace, Name: set, From: l.from, Eligible: upstreamEligible, Excused: maps.Clone(l.excused), Outages: true, Limit: limit,
		Rests: slices.Clone(l.rests), Received: maps.Clone(l.received), Deaths: slices.Clone(l.deaths),
	}
}

// concerns reports whether an object belongs to the set of that name. Two sets in one namespace have different names.
func concerns(object metav1.Object, set string) bool {
	switch object.(type) {
	case *corev1.Node:
		return true
	case *corev1.Pod, *appsv1.ControllerRevision:
		owner := metav1.GetControllerOf(object)
		return owner != nil && owner.Name == set
	default:
		return object.GetName() == set
	}
}
