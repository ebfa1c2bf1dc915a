// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/observe"
)

// mutant is a log that no good manager leaves, and who has to notice.
type mutant struct {
	what  string
	log   []observe.Event
	rules observe.Rules
	by    observe.Invariant
	// text is what they say.
	text string
}

func (m *mutant) noticed() bool {
	return slices.ContainsFunc(observe.Judge(m.log, m.rules).Violations, func(v observe.Violation) bool {
		return v.Invariant == m.by && strings.Contains(v.Detail, m.text)
	})
}

// judgeLogMutants changes what was recorded of each set in one place each, and fails if that is not detected: a judge that is content with everything
// would be content with the run as well.
func (u *troupe) judgeLogMutants() {
	u.t.Helper()
	shown := map[observe.Invariant]bool{}
	for _, m := range u.members {
		log, rules := u.ledger.Of(m.name, m.limit)
		end := endOf(u.t, log, rules)
		end.checkRest()
		all := mutants(m, end, log, rules)
		if m.advanced {
			object, err := u.client(m).Get(u.Context(), m.name, metav1.GetOptions{})
			if err != nil {
				u.t.Fatal(err)
			}
			set, err := observe.ReadAdvanced(object)
			if err != nil {
				u.t.Fatal(err)
			}
			all = append(all, advancedMutants(m, set, end)...)
		}
		for i := range all {
			if shown[all[i].by] = true; !all[i].noticed() {
				u.t.Errorf("set %s, %s: that is not detected", m.name, all[i].what)
			}
		}
	}
	for _, invariant := range []observe.Invariant{
		observe.Budget, observe.OnePod, observe.SurgePods, observe.Surge, observe.Limits, observe.Kept, observe.InPlace, observe.Hook, observe.Status,
	} {
		if !shown[invariant] {
			u.t.Errorf("nothing that was recorded shows that %s can fail", invariant)
		}
	}
}

// mutants are those of every set.
func mutants(m *member, end *ending, log []observe.Event, rules observe.Rules) []mutant {
	crowded := mutant{what: "two more pods on a node", log: crowd(log, rules.From), rules: rules, by: observe.OnePod}
	all := []mutant{end.mutant("the newest pod deleted", observe.Kept, "is up to date", func(e *ending) { e.change(e.pod(), deleted) })}
	all = append(all, end.mutant("a pod deleted whose revision is another one and whose template is the same", observe.Kept, "the template of its set has wanted what it runs", func(e *ending) {
		e.change(e.change(e.pod(), func(pod *corev1.Pod) {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.DefaultDaemonSetUniqueLabelKey, nextRevision)
		}), deleted)
	}))
	if m.surges() {
		crowded.by = observe.SurgePods
		all = append(all, end.mutant("a new pod everywhere", observe.Surge, "nodes are surging", (*ending).surge))
	}
	if most := observe.Judge(log, rules).MostUnavailable; most > 1 {
		smaller := mutant{what: "a smaller budget", log: log, rules: rules, by: observe.Budget}
		smaller.rules.Limit = most - 1
		all = append(all, smaller)
	}
	return append(append(all, crowded), statusMutants(end)...)
}

// advancedMutants are those of an Advanced set, whose newest version is this one.
func advancedMutants(m *member, set *v1beta1.DaemonSet, end *ending) []mutant {
	newest, next := imageName(m.image), imageName(images+1)
	all := []mutant{
		end.mutant("a pod changed while it is in use", observe.InPlace, "changed while it was in use", func(e *ending) {
			e.roll(m, set, unlimited)
			e.change(e.pod(), revised(next))
		}),
		end.mutant("a pod put into use too early", observe.InPlace, "was put into use while container daemon runs "+newest, func(e *ending) {
			e.roll(m, set, unlimited)
			marked := e.change(e.change(e.pod(), gate(corev1.ConditionFalse)), revised(next))
			marked.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: marked.Spec.Containers[0].Name, Image: newest}}
			e.change(marked, gate(corev1.ConditionTrue))
		}),
	}
	if m.hooked {
		all = append(all, end.mutant("a hook that was not released", observe.Hook, "its hook had not released it", func(e *ending) {
			e.roll(m, set, unlimited)
			e.change(e.change(e.pod(), func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, holdLabel, held) }), deleted)
		}))
	}
	for text, limit := range map[string]func(spec *v1beta1.DaemonSetSpec){
		"the update is paused":             func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.RollingUpdate.Paused = new(true) },
		"the selector chooses other nodes": func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.RollingUpdate.Selector = nowhere() },
		"the partition allows 0 of": func(spec *v1beta1.DaemonSetSpec) {
			spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromString("100%"))
		},
		"the strategy is OnDelete": func(spec *v1beta1.DaemonSetSpec) { spec.UpdateStrategy.Type = v1beta1.OnDeleteDaemonSetStrategyType },
	} {
		all = append(all, end.mutant("a pod deleted, and "+text, observe.Limits, text, func(e *ending) {
			e.roll(m, set, limit)
			e.change(e.pod(), deleted)
		}))
	}
	return all
}

func unlimited(*v1beta1.DaemonSetSpec) {}

// nowhere chooses no node.
func nowhere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: "of-no-node"}}
}

// roll has users show something new, under a limit, and the manager see it.
func (e *ending) roll(m *member, set *v1beta1.DaemonSet, limit func(spec *v1beta1.DaemonSetSpec)) {
	set = set.DeepCopy()
	set.Generation++
	set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, nextRevision
	set.Spec.Template.Raw = bytes.ReplaceAll(set.Spec.Template.Raw, []byte(imageName(m.image)), []byte(imageName(images+1)))
	limit(&set.Spec)
	version, err := observe.NewAdvanced(set)
	if err != nil {
		e.t.Fatal(err)
	}
	e.then(watch.Modified, version)
}

// nextRevision is that of what roll shows.
const nextRevision = "revision-of-a-mutant"

// surge puts a new pod next to every one.
func (e *ending) surge() {
	for _, pod := range e.pods() {
		e.then(watch.Added, twin(pod, 0))
	}
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }

// revised has a pod be of what roll shows.
func revised(image string) func(pod *corev1.Pod) {
	return func(pod *corev1.Pod) {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.DefaultDaemonSetUniqueLabelKey, nextRevision)
		pod.Spec.Containers[0].Image = image
	}
}

// gate opens or closes what keeps a pod out of use while it is changed in place.
func gate(status corev1.ConditionStatus) func(pod *corev1.Pod) {
	return func(pod *corev1.Pod) {
		others := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kruise.InPlaceUpdateReady })
		pod.Status.Conditions = append(others, corev1.PodCondition{Type: kruise.InPlaceUpdateReady, Status: status})
	}
}

// crowd gives the first pod that was created since then two twins.
func crowd(log []observe.Event, from uint64) []observe.Event {
	at := slices.IndexFunc(log, func(e observe.Event) bool {
		_, isPod := e.Object.(*corev1.Pod)
		return isPod && e.Type == watch.Added && e.Version > from
	})
	if at < 0 {
		return log
	}
	var twins []observe.Event
	for i := range 2 {
		e := log[at]
		e.Object = twin(e.Object.(*corev1.Pod), i)
		twins = append(twins, e)
	}
	return slices.Insert(slices.Clone(log), at+1, twins...)
}

// twin is a new pod next to another one.
func twin(pod *corev1.Pod, number int) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.UID, pod.Name = types.UID(fmt.Sprint(pod.UID, "-twin", number)), fmt.Sprint(pod.Name, "-twin", number)
	pod.Status = corev1.PodStatus{}
	return pod
}
