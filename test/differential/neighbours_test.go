// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// tenantSpace is the namespace of a tenant.
const tenantSpace = "tenant"

// admission is what stands before the API server: it is asked about every write of a pod by a controller.
type admission struct {
	rules []rule
	// quota is how many pods that have not ended may be in the namespace, 0 for any number.
	quota int
	// slow is how long a webhook takes to answer, mutates whether one changes new pods.
	slow    time.Duration
	mutates bool
}

// rule refuses one kind of write for the pods of one node, or of all if that is empty.
type rule struct {
	verb, node string
	refusal
}

// refusal is an answer of admission.
type refusal struct {
	words string
	err   error
}

func refusals() []refusal {
	code := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	pod := schema.GroupResource{Resource: pods}
	return []refusal{
		{"a webhook denies without a code", code(http.StatusBadRequest, `admission webhook "w.example" denied the request without explanation`)},
		{"a webhook denies with 409", code(http.StatusConflict, `admission webhook "w.example" denied the request: not now`)},
		{"a webhook denies with 404", code(http.StatusNotFound, `admission webhook "w.example" denied the request: not found`)},
		{"a webhook denies with 429", code(http.StatusTooManyRequests, `admission webhook "w.example" denied the request: too many`)},
		{"a webhook denies with 500", code(http.StatusInternalServerError, `admission webhook "w.example" denied the request: out of order`)},
		{"a policy forbids it", apierrors.NewForbidden(pod, "", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: protected"))},
		{"a policy says invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "", nil)},
		{"a webhook is down", apierrors.NewInternalError(errors.New(`failed calling webhook "w.example": connection refused`))},
		{"a webhook takes too long", apierrors.NewInternalError(errors.New(`failed calling webhook "w.example": context deadline exceeded`))},
	}
}

// write is what a request of a controller writes of a pod: its kind, and the node; false if it writes none.
func (c *cluster) write(action clienttesting.Action) (verb, node string, is bool) {
	if action.GetResource().Resource != pods {
		return "", "", false
	}
	stored := func(name string) string {
		p := at[corev1.Pod](&c.state, pods, name)
		if p == nil {
			return ""
		}
		on, _ := util.GetTargetNodeName(p)
		return on
	}
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		node, _ = util.GetTargetNodeName(a.Object.(*corev1.Pod))
		return "create", node, true
	case clienttesting.DeleteActionImpl:
		return "delete", stored(a.Name), true
	case clienttesting.PatchActionImpl:
		return "patch", stored(a.Name), true
	default:
		return "", "", false
	}
}

// slowClient is a client whose writes of pods wait for admission. The fake one holds a lock while it answers, so it is done here.
type slowClient struct {
	kubernetes.Interface
	c *cluster
}

// CoreV1 implements kubernetes.Interface.
func (s slowClient) CoreV1() typed.CoreV1Interface { return slowCore{s.Interface.CoreV1(), s.c} }

type slowCore struct {
	typed.CoreV1Interface
	c *cluster
}

// Pods implements typed.CoreV1Interface.
func (s slowCore) Pods(space string) typed.PodInterface {
	return slowPods{s.CoreV1Interface.Pods(space), s.c}
}

type slowPods struct {
	typed.PodInterface
	c *cluster
}

// wait takes as long as admission.
func (s slowPods) wait() {
	s.c.mu.Lock()
	d := s.c.slow
	s.c.mu.Unlock()
	time.Sleep(d)
}

// Create implements typed.PodInterface.
func (s slowPods) Create(ctx context.Context, p *corev1.Pod, o metav1.CreateOptions) (*corev1.Pod, error) {
	s.wait()
	return s.PodInterface.Create(ctx, p, o)
}

// Delete implements typed.PodInterface.
func (s slowPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	s.wait()
	return s.PodInterface.Delete(ctx, name, o)
}

// Patch implements typed.PodInterface.
func (s slowPods) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, of ...string,
) (*corev1.Pod, error) {
	s.wait()
	return s.PodInterface.Patch(ctx, name, kind, data, o, of...)
}

// admit asks the policies and the quota about a request.
func (c *cluster) admit(action clienttesting.Action) error {
	verb, node, is := c.write(action)
	if !is {
		return nil
	}
	for _, r := range c.rules {
		if r.verb == verb && (r.node == "" || r.node == node) {
			return r.err
		}
	}
	if verb == "create" && c.quota > 0 && c.count() >= c.quota {
		return apierrors.NewForbidden(schema.GroupResource{Resource: pods}, "", fmt.Errorf("exceeded quota: q, limited: pods=%d", c.quota))
	}
	if verb == "create" && c.mutates {
		mutate(action.(clienttesting.CreateActionImpl).Object.(*corev1.Pod))
	}
	return nil
}

// count is how many pods a quota counts.
func (s *state) count() int {
	n := 0
	for _, o := range s.tables[pods] {
		if p := o.(*corev1.Pod); p.Namespace == namespace && !ended(p) {
			n++
		}
	}
	return n
}

// mutate is what a webhook does to a new pod.
func mutate(p *corev1.Pod) {
	p.Labels["mesh"] = "on"
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"})
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "mesh", Operator: corev1.TolerationOpExists})
}

// neighbourAct is what somebody else in the cluster does.
func (a *author) neighbourAct() act {
	node := fmt.Sprintf("n%d", 1+a.IntN(a.nodes))
	switch a.IntN(10) {
	case 0, 1, 2:
		return refuse(rule{pick(a, "create", "delete", "delete", "patch"), node, pick(a, refusals()...)})
	case 3:
		return refuse(rule{pick(a, "create", "delete"), "", pick(a, refusals()...)})
	case 4:
		n := 1 + a.IntN(a.nodes+1)
		return act{words: fmt.Sprintf("a quota allows %d pods", n), do: func(c *cluster) { c.quota = n }}
	case 5:
		d := pick(a, 3*time.Second, 12*time.Second, 29*time.Second)
		return act{words: fmt.Sprintf("a webhook takes %s to admit pods", d), do: func(c *cluster) { c.slow = d }}
	case 6:
		return act{words: "a webhook begins or ends to change new pods", do: func(c *cluster) { c.mutates = !c.mutates }}
	default:
		set, owned, leaving := pick(a, a.sets...), a.chance(2), a.chance(2)
		return act{words: fmt.Sprintf("a tenant's pod on %s has the labels of %s, names it as its owner: %v, terminating: %v", node, set, owned, leaving),
			do: func(c *cluster) { tenantPod(c, set, node, owned, leaving) }}
	}
}

func refuse(r rule) act {
	where := "all pods"
	if r.node != "" {
		where = "pods of " + r.node
	}
	return act{words: fmt.Sprintf("to %s %s is refused: %s", r.verb, where, r.words), do: func(c *cluster) { c.rules = append(slices.Clone(c.rules), r) }}
}

// admitAll ends whatever stands before the API server. Sets are touched, as nobody waits here for the back-off of the native controller, which is up to 17
// minutes long.
func admitAll() act {
	return act{words: "everything is admitted again, and a user annotates the sets", do: func(c *cluster) {
		c.admission = admission{}
		for _, name := range c.names(sets) {
			change(c, sets, name, func(ds *appsv1.DaemonSet) { ds.Annotations["touched"] = "yes" })
		}
	}}
}

// tenantPod puts a pod into another namespace, which has the labels of a set, and may name that as its owner.
func tenantPod(c *cluster, set, node string, owned, leaving bool) {
	name := strings.Join([]string{"tenant", set, node}, "-")
	ds := at[appsv1.DaemonSet](&c.state, sets, set)
	if at[corev1.Pod](&c.state, pods, name) != nil || ds == nil {
		return
	}
	c.created++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenantSpace, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", c.created)), CreationTimestamp: now(), Labels: map[string]string{"app": set},
	}}
	if owned {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	}
	if leaving {
		p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = []string{"example.com/other"}, new(now()), new(grace)
	}
	p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = node, corev1.PodRunning, new(now())
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: ds.Spec.Template.Spec.Containers[0].Image}}
	c.setReady(p, true)
	c.commit(pods, watch.Added, p)
}
