// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// member is one set of the troupe.
type member struct {
	name     string
	advanced bool
	// limit is the budget of a set whose strategy does not tell.
	limit int
	// image is what the users want it to run, before what they wanted last.
	image, before int
	// held is whether users keep its update from ending.
	held bool
	// away is whether its definition was deleted, and so the set.
	away bool
	// hooked is whether its pods wait for a user to release them before they go.
	hooked bool
}

// surges is whether its new pods come next to the old ones.
func (m *member) surges() bool { return m.name == "surging" }

// troupe are the sets, and their users.
type troupe struct {
	*harness.Space
	t       *testing.T
	ledger  *observe.Ledger
	random  *rand.Rand
	members []*member
	budgets budgets
	// released are the versions of the pods that users have released.
	released map[types.UID]string
	// rests is how often the status of each set has been counted.
	rests int
	// acts are what users have done, by what it was.
	acts map[string]int
}

const container = `containers: [{name: daemon, image: "registry.example/daemon:1"}]`

// manifests are the five sets: two of apps/v1, one of those with OpenYurt's annotation, and two Advanced ones.
func manifests(space string, b budgets) map[string]string {
	template := func(name string) string {
		return fmt.Sprintf("selector: {matchLabels: {app: %s}}\n  template: {metadata: {labels: {app: %s}}, spec: {terminationGracePeriodSeconds: 1, nodeSelector: {%s: %s}, %s}}",
			name, name, harness.PoolLabel, space, container)
	}
	text := func(version, name, meta, strategy string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: DaemonSet\nmetadata: {name: %s%s}\nspec:\n  updateStrategy: %s\n  %s\n", version, name, meta, strategy, template(name))
	}
	edge := fmt.Sprintf(`, annotations: {apps.openyurt.io/update-strategy: AdvancedRollingUpdate, apps.openyurt.io/max-unavailable: "%d"}`, b.edge)
	return map[string]string{
		"plain":    text("apps/v1", "plain", "", "{type: RollingUpdate, rollingUpdate: {maxUnavailable: "+b.share+"}}"),
		"surging":  text("apps/v1", "surging", "", "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: "+b.share+"}}"),
		"edge":     text("apps/v1", "edge", edge, "{type: OnDelete}"),
		"in-place": text("apps.kruise.io/v1beta1", "in-place", "", "{type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: "+b.share+"}}"),
		"limited":  text("apps.kruise.io/v1beta1", "limited", "", "{type: RollingUpdate, rollingUpdate: {maxUnavailable: "+b.share+"}}\n  minReadySeconds: 1"),
	}
}

// manifest is that of a member, with its image.
func manifest(space string, b budgets, m *member) (*unstructured.Unstructured, error) {
	set := &unstructured.Unstructured{}
	text := strings.ReplaceAll(manifests(space, b)[m.name], imageName(1), imageName(m.image))
	if err := yaml.Unmarshal([]byte(text), &set.Object); err != nil {
		return nil, err
	}
	if m.hooked {
		return set, hook(set)
	}
	return set, nil
}

// budgets are at how many nodes a set may be without an available pod at once, or surge: a share for those whose strategy says so, and a
// number for the one with the annotation.
type budgets struct {
	share string
	edge  int
	// hooks is whether the pods of one set have a hook.
	hooks bool
}

func usual() budgets { return budgets{share: "10%", edge: 15, hooks: true} }

// newTroupe makes the sets, and waits until they run.
func newTroupe(t *testing.T, c *harness.Cluster, nodes int, b budgets) *troupe {
	t.Helper()
	s := c.Space(t, nodes)
	store, err := c.Plane.Store()
	if err != nil {
		t.Fatal(err)
	}
	u := &troupe{Space: s, t: t, budgets: b, random: rand.New(rand.NewPCG(*seed, 1)), acts: map[string]int{}, released: map[types.UID]string{}, members: []*member{
		{name: "plain"}, {name: "surging"}, {name: "edge", limit: b.edge}, {name: "in-place", advanced: true}, {name: "limited", advanced: true, hooked: b.hooks},
	}}
	if u.ledger, err = observe.OpenLedger(s.Context(), store, s.Name); err != nil {
		t.Fatal(err)
	}
	for _, m := range u.members {
		m.image = 1
		if err := u.create(m); err != nil {
			t.Fatal(err)
		}
	}
	u.settle("the sets run everywhere")
	return u
}

func (u *troupe) client(m *member) dynamic.ResourceInterface {
	resource := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	if m.advanced {
		resource = v1beta1.GroupVersion().WithResource(kruise.Resource)
	}
	return u.Cluster.Dynamic.Resource(resource).Namespace(u.Name)
}

// edit changes a set, however long it takes until the API server answers.
func (u *troupe) edit(m *member, patch map[string]any) {
	raw, err := json.Marshal(map[string]any{"spec": patch})
	if err != nil {
		u.t.Fatal(err)
	}
	u.Poll("a user can change set "+m.name, func() error {
		_, err := u.client(m).Patch(u.Context(), m.name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

func imageName(number int) string { return fmt.Sprintf("registry.example/daemon:%d", number) }

// show has the set run an image.
func (u *troupe) show(m *member, image int) {
	m.before, m.image = m.image, image
	u.showImage(m, imageName(image))
}

func (u *troupe) showImage(m *member, image string) {
	u.edit(m, map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "daemon", "image": image}}}}})
}

// rolling changes how an Advanced DaemonSet is updated; nil takes a field away.
func (u *troupe) rolling(m *member, field string, value any) {
	u.edit(m, map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{field: value}}})
}

// done is nil when every node has a pod of the set with its image, and the status says so.
func (u *troupe) done(m *member) error {
	set := u.View().Set(m.name)
	if set == nil || set.Spec.Template.Spec.Containers[0].Image != imageName(m.image) {
		return fmt.Errorf("the newest version of set %s is not seen yet", m.name)
	}
	if err := harness.RolledOut(m.name, set.Generation, len(u.Nodes))(u.View()); err != nil {
		return err
	}
	return harness.EachPod(m.name, "of its newest image", func(pod *corev1.Pod) bool {
		return pod.Spec.Containers[0].Image == imageName(m.image)
	})(u.View())
}

// images is how many images there are.
const images = 9

// act has the users do what they feel like: with a set that is complete something new, with another one now and then.
func (u *troupe) act() {
	u.release()
	for _, m := range u.members {
		if m.away {
			continue
		}
		if idle := u.done(m) == nil; !idle && u.random.IntN(12) > 0 {
			continue
		}
		what := u.do(m)
		u.acts[what]++
	}
}

func (u *troupe) do(m *member) string {
	switch choice := u.random.IntN(10); {
	case m.held && choice < 6:
		m.held = false
		u.edit(m, map[string]any{"updateStrategy": map[string]any{"rollingUpdate": free()}})
		return "freed"
	case choice == 0:
		u.deletePod(m)
		return "pod deleted"
	case choice < 3 && m.before != 0:
		u.show(m, m.before)
		return "undone"
	case choice < 5 && m.name == "limited":
		m.held = true
		u.rolling(m, "partition", fmt.Sprintf("%d%%", 30+u.random.IntN(60)))
		u.show(m, 1+m.image%images)
		return "rolled with a partition"
	case choice < 6 && m.name == "limited":
		m.held = true
		u.rolling(m, "selector", u.some())
		u.show(m, 1+m.image%images)
		return "rolled with a selector"
	case choice < 7 && m.advanced:
		m.held = true
		u.rolling(m, "paused", true)
		return "paused"
	default:
		u.show(m, 1+m.image%images)
		return "rolled"
	}
}

// free are the fields that let an update end.
func free() map[string]any { return map[string]any{"paused": nil, "partition": nil, "selector": nil} }

// some chooses a quarter of the nodes.
func (u *troupe) some() map[string]any {
	const part = 4
	var names []any
	for _, i := range u.random.Perm(len(u.Nodes))[:max(1, len(u.Nodes)/part)] {
		names = append(names, u.Nodes[i])
	}
	return map[string]any{"matchExpressions": []any{map[string]any{"key": corev1.LabelHostname, "operator": "In", "values": names}}}
}

// deletePod deletes a pod of the set, as a person does. One that is going is left alone: it would not be known who has deleted it.
func (u *troupe) deletePod(m *member) {
	pods := slices.DeleteFunc(u.View().Pods(m.name), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(pods) == 0 {
		return
	}
	pod := pods[u.random.IntN(len(pods))]
	u.ledger.Excuse(pod.UID)
	u.Poll("a user can delete a pod", func() error {
		err := u.Cluster.Client.CoreV1().Pods(u.Name).Delete(u.Context(), pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// busy has the users at work for a while.
func (u *troupe) busy(span time.Duration) {
	ctx, cancel := context.WithTimeout(u.Context(), span)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		u.act()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// settle takes back what holds updates up, and waits until all of them have ended.
func (u *troupe) settle(what string) {
	u.t.Helper()
	for _, m := range u.members {
		if m.held {
			m.held = false
			u.edit(m, map[string]any{"updateStrategy": map[string]any{"rollingUpdate": free()}})
		}
	}
	const patience = 5 * time.Minute
	u.WaitFor(patience, what, func(harness.View) error {
		u.release()
		for _, m := range u.members {
			if err := u.done(m); err != nil {
				return err
			}
		}
		return nil
	})
}
