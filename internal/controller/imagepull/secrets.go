// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/apply"
)

// ReasonNoSecret is the reason of events about a pull secret that does not exist, may not be read, or has another type. Kubelets use the same reason.
const ReasonNoSecret = "FailedToRetrieveImagePullSecret"

// messageForbidden is about a pull secret that the manager may not read in its namespace.
const messageForbidden = "the manager may not read the pull secret %s; allow it with: kubectl create rolebinding everynode-pull-secrets --namespace %s " +
	"--clusterrole everynode-manager-read-pull-secrets --serviceaccount %s"

// refreshInterval is how often a secret is read again while a job runs, and how often unused copies are deleted.
const refreshInterval = time.Minute

// Secrets copies the pull secrets of jobs to the namespace that the agents of nodes may read. It does so only for the allowed namespaces: a client
// that may read one copy may read all of them.
type Secrets struct {
	live   client.Client
	events record.EventRecorder
	clock  clock.PassiveClock
	// allowed are the namespaces from which secrets may be copied.
	allowed []string

	mu sync.Mutex
	// cache has the references that were last read of the secrets of a job.
	cache map[types.UID]cached
}

type cached struct {
	at         time.Time
	references []v1beta1.ReferenceObject
	hold       string
}

// NewSecrets returns Secrets that copy from the allowed namespaces.
func NewSecrets(live client.Client, events record.EventRecorder, c clock.PassiveClock, allowed []string) *Secrets {
	return &Secrets{live: live, events: events, clock: c, allowed: allowed, cache: map[types.UID]cached{}}
}

// sync returns references to the copied secrets of a job, or why the job must wait.
func (s *Secrets) sync(ctx context.Context, job *v1beta1.ImagePullJob) (references []v1beta1.ReferenceObject, hold string, err error) {
	names := job.Spec.PullSecrets
	switch {
	case len(names) == 0:
		return nil, "", nil
	case job.Namespace == kruise.PullNamespace:
		for _, name := range names {
			references = append(references, v1beta1.ReferenceObject{Namespace: job.Namespace, Name: name})
		}
		return references, "", nil
	case !slices.Contains(s.allowed, job.Namespace):
		return nil, fmt.Sprintf("pull secrets of the namespace %s may not be given to nodes: add it to pullSecretNamespaces in the configuration of the manager, "+
			"or remove spec.pullSecrets", job.Namespace), nil
	}
	s.mu.Lock()
	last, ok := s.cache[job.UID]
	s.mu.Unlock()
	if ok && s.clock.Since(last.at) < refreshInterval {
		return last.references, last.hold, nil
	}
	for _, name := range names {
		reference, why, err := s.copy(ctx, job, name)
		if err != nil {
			return nil, "", fmt.Errorf("copying the pull secret %s/%s: %w", job.Namespace, name, err)
		}
		if reference != nil {
			references = append(references, *reference)
		}
		hold = cmp.Or(hold, why)
	}
	s.mu.Lock()
	s.cache[job.UID] = cached{s.clock.Now(), references, hold}
	s.mu.Unlock()
	return references, hold, nil
}

// copy brings the copy of one secret up to date; nil if there is no such secret. The image may be pulled without it, as a kubelet
// would try to. One that may not be read holds the job.
func (s *Secrets) copy(ctx context.Context, job *v1beta1.ImagePullJob, name string) (reference *v1beta1.ReferenceObject, hold string, err error) {
	ctx = unlogged(ctx)
	source := &corev1.Secret{}
	err = s.live.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: name}, source)
	if apierrors.IsNotFound(err) {
		s.events.Eventf(subject(job), corev1.EventTypeWarning, ReasonNoSecret, "The pull secret %s does not exist; the image may be pulled without it", name)
		return nil, "", nil
	}
	if apierrors.IsForbidden(err) {
		hold = fmt.Sprintf(messageForbidden, name, job.Namespace, apply.RefusedAccount(err))
		s.events.Event(subject(job), corev1.EventTypeWarning, ReasonNoSecret, hold)
		return nil, hold, nil
	}
	if err != nil {
		return nil, "", err
	}
	if source.Type != corev1.SecretTypeDockerConfigJson && source.Type != corev1.SecretTypeDockercfg {
		s.events.Eventf(subject(job), corev1.EventTypeWarning, ReasonNoSecret, "The secret %s is of the type %s, which is not a type for pull secrets; it is not copied", name, source.Type)
		return nil, "", nil
	}
	reference, err = s.keep(ctx, source, job.Namespace+"/"+job.Name)
	return reference, "", err
}

// keep brings the copy of a secret up to date, for the job of that key.
func (s *Secrets) keep(ctx context.Context, source *corev1.Secret, key string) (*v1beta1.ReferenceObject, error) {
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kruise.PullNamespace, Name: copyName(source),
			Labels:      map[string]string{kruise.PullSecretSourceUID: string(source.UID)},
			Annotations: map[string]string{kruise.PullSecretSource: source.Namespace + "/" + source.Name, kruise.PullSecretReferences: key},
		},
		Type: source.Type, Data: source.Data,
	}
	found := &corev1.Secret{}
	err := s.live.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	switch {
	case apierrors.IsNotFound(err):
		err = s.live.Create(ctx, wanted)
	case err == nil:
		jobs := references(found)
		jobs[key] = true
		changed := found.DeepCopy()
		changed.Data = source.Data
		setReferences(changed, jobs)
		if !reflect.DeepEqual(found, changed) {
			err = s.live.Update(ctx, changed) // a conflict has the pass repeated
		}
	}
	if err != nil {
		return nil, err
	}
	return &v1beta1.ReferenceObject{Namespace: wanted.Namespace, Name: wanted.Name}, nil
}

// unlogged is a context for requests that carry secrets: from -v=8 on the client logs bodies of requests and responses.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// copyName returns the name of the copy of a secret. It is stable and unique.
func copyName(source *corev1.Secret) string {
	sum := sha256.Sum256([]byte(source.UID))
	return strings.TrimRight(source.Name[:min(len(source.Name), 200)], "-.") + "-" + hex.EncodeToString(sum[:5])
}

// references are the jobs that a copy is kept for.
func references(secret *corev1.Secret) map[string]bool {
	jobs := map[string]bool{}
	for key := range strings.SplitSeq(secret.Annotations[kruise.PullSecretReferences], ",") {
		if key != "" {
			jobs[key] = true
		}
	}
	return jobs
}

func setReferences(secret *corev1.Secret, jobs map[string]bool) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[kruise.PullSecretReferences] = strings.Join(slices.Sorted(maps.Keys(jobs)), ",")
}

// run deletes unused copies until ctx ends.
func (s *Secrets) run(ctx context.Context, needed func(context.Context, types.NamespacedName) (bool, error)) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		if err := s.sweep(ctx, needed); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Deleting unused copies of pull secrets failed")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep deletes the copies that no job needs any more.
func (s *Secrets) sweep(ctx context.Context, needed func(context.Context, types.NamespacedName) (bool, error)) error {
	ctx = unlogged(ctx)
	copies := &corev1.SecretList{}
	err := s.live.List(ctx, copies, client.InNamespace(kruise.PullNamespace), client.HasLabels{kruise.PullSecretSourceUID})
	if apierrors.IsForbidden(err) && len(s.allowed) == 0 {
		return nil // nothing is copied here; only what an earlier configuration has copied is looked for
	}
	if err != nil {
		return err
	}
	var errs []error
	for i := range copies.Items {
		errs = append(errs, s.release(ctx, &copies.Items[i], needed))
	}
	s.forget()
	return errors.Join(errs...)
}

func (s *Secrets) release(ctx context.Context, secret *corev1.Secret, needed func(context.Context, types.NamespacedName) (bool, error)) error {
	jobs := references(secret)
	before := len(jobs)
	for key := range jobs {
		namespace, name, _ := strings.Cut(key, "/")
		still, err := needed(ctx, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			return err
		}
		if !still {
			delete(jobs, key)
		}
	}
	var err error
	switch {
	case len(jobs) == 0:
		// With a precondition on the version that was read: a new job may need the copy by now.
		version, uid := secret.ResourceVersion, secret.UID
		err = s.live.Delete(ctx, secret, client.Preconditions{UID: &uid, ResourceVersion: &version})
	case len(jobs) < before:
		setReferences(secret, jobs)
		err = s.live.Update(ctx, secret)
	}
	return client.IgnoreNotFound(ignoreConflict(err))
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil // the next sweep reads it again
	}
	return err
}

// forget drops what was cached long ago.
func (s *Secrets) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.cache, func(_ types.UID, k cached) bool { return s.clock.Since(k.at) > 2*refreshInterval })
}
