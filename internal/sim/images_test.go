// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// pullTimeout is how long a change in place waits for an image after the node was asked to pull it, by an annotation of the set.
const pullTimeout = 30 * time.Second

// waitsForImages is whether changes in place of a run wait for images, and readsLabels whether an environment variable of the side reads a label that changes with most images.
func (c config) waitsForImages() bool { return c.inPlaceRun() && c.with("images") }
func (c config) readsLabels() bool    { return c.inPlaceRun() && c.with("readers") }

func (c config) inPlaceRun() bool {
	return c.dialect == kruiseRun && c.with("inplace") && c.surge == "0"
}

// hasAgents is whether managers know of agents, which may die.
func (c config) hasAgents() bool { return c.waitsForImages() || c.readsLabels() }

// pulls are the images of nodes, the jobs that pull them, and the agents.
type pulls struct {
	// has is the nodes that have an image, as "node image"; stuck are the nodes on which no pull ends.
	has, stuck map[string]bool
	jobs       []*pullJob
	// dead are the nodes whose agent has died, turned the step at which the agent of a node died or came back.
	dead   map[string]bool
	turned map[string]int
}

// pullJob is an ImagePullJob; gone is the step at which it was deleted, 0 if it is there.
type pullJob struct {
	predownload.Job
	owner       types.UID
	parallelism int
	made, gone  int
	// born is when it was created, asked when each node was asked to pull, by a clock that is right, and at at which step. ordered is that by the clock of the manager.
	born    time.Time
	asked   map[string]time.Time
	at      map[string]int
	ordered map[string]rollout.Time
}

// sides are what a run knows of images, and of containers that restart.
type sides struct {
	// moment counts the steps. pulls are the images of nodes, and what pulls them.
	moment int
	pulls  pulls
	// restartsAsked has how many containers there were when the last restart of the side of a pod was asked for, and sideMade how many when it was made. tierOf is
	// the label that it has read, and patched is when the last patch of a pod took effect.
	restartsAsked, sideMade map[types.UID]int
	tierOf                  map[types.UID]string
	patched                 map[types.UID]time.Time
}

func newSides() sides {
	return sides{
		pulls:         pulls{has: map[string]bool{}, stuck: map[string]bool{}, dead: map[string]bool{}, turned: map[string]int{}},
		restartsAsked: map[types.UID]int{}, sideMade: map[types.UID]int{}, tierOf: map[types.UID]string{}, patched: map[types.UID]time.Time{},
	}
}

// job is a job that is there.
func (p *pulls) job(name string) *pullJob {
	for _, j := range p.jobs {
		if j.Name == name && j.gone == 0 {
			return j
		}
	}
	return nil
}

// pullsOf are ImagePullJobs and NodeImages as a manager reads and writes them.
type pullsOf struct{ m *manager }

// pullJobs are those of a manager; nil in a run without.
func (m *manager) pullJobs() daemonset.PullJobs {
	if !m.s.cfg.waitsForImages() {
		return nil
	}
	return pullsOf{m}
}

func (m *manager) imagesInPlace() *daemonset.ImagesInPlace {
	if !m.s.cfg.waitsForImages() {
		return nil
	}
	return &daemonset.ImagesInPlace{MayCopySecrets: func(string) bool { return false }}
}

// Serving implements daemonset.PullJobs.
func (f pullsOf) Serving() (ready bool, why string) { return true, "" }

// Owned implements daemonset.PullJobs.
func (f pullsOf) Owned(_ context.Context, _ string, set types.UID) (owned []predownload.Job, _ error) {
	f.m.s.tick.Load()
	for _, j := range f.m.s.pulls.jobs {
		if j.gone == 0 && j.owner == set {
			owned = append(owned, j.Job)
		}
	}
	return owned, nil
}

// Look implements daemonset.PullJobs.
func (f pullsOf) Look(image string, of *predownload.Job) func(node string) predownload.Pulled {
	return func(node string) predownload.Pulled {
		pulled := predownload.Pulled{There: f.m.s.pulls.has[node+" "+image]}
		if of == nil {
			return pulled
		}
		if j := f.m.s.pulls.job(of.Name); j != nil && j.UID == of.UID {
			pulled.Ordered = j.ordered[node]
		}
		return pulled
	}
}

// Create implements daemonset.PullJobs.
func (f pullsOf) Create(_ context.Context, job *v1beta1.ImagePullJob) error {
	s := f.m.s
	_, err := f.m.ask(&request{text: "creates the job " + job.Name, write: true, action: action{verb: "create a job", image: job.Name}, commit: func() (any, error) {
		owner := job.OwnerReferences[0].UID
		if old := s.pulls.job(job.Name); old != nil && old.owner == owner {
			return nil, apierrors.NewAlreadyExists(podResource("imagepulljobs"), job.Name)
		} else if old != nil {
			old.gone = s.moment
		}
		s.pulls.jobs = append(s.pulls.jobs, &pullJob{
			Job: predownload.Job{
				Namespace: job.Namespace, Name: job.Name, Hash: job.Labels["controller-revision-hash"], Image: job.Spec.Image, UID: types.UID(words("job-%d", len(s.pulls.jobs))),
				Created: rollout.Time(s.w.now.Add(s.w.skew).Truncate(time.Second).UnixNano()), Stays: true,
			},
			owner: owner, parallelism: job.Spec.Parallelism.IntValue(), made: s.moment, born: s.w.now, asked: map[string]time.Time{}, at: map[string]int{}, ordered: map[string]rollout.Time{},
		})
		for _, m := range s.managers() { // their watches show it
			m.c.PullsChanged(owner)
			m.enqueue(m.key)
		}
		return nil, nil
	}})
	f.m.noJob = f.m.noJob || err != nil && !apierrors.IsAlreadyExists(err)
	return err
}

// Delete implements daemonset.PullJobs.
func (f pullsOf) Delete(_ context.Context, _, name string) error {
	_, err := f.m.ask(&request{text: "deletes the job " + name, write: true, commit: func() (any, error) {
		if j := f.m.s.pulls.job(name); j != nil {
			j.gone = f.m.s.moment
		}
		return nil, nil
	}})
	return err
}

// pullOps are what jobs and agents do about images.
func (s *sim) pullOps(ops []op) []op {
	if !s.cfg.waitsForImages() || s.lead == nil || !s.lead.synced() {
		return ops
	}
	for _, j := range s.pulls.jobs {
		if j.gone != 0 {
			continue
		}
		for _, n := range s.w.nodes() {
			key := n.Name + " " + j.Image
			if _, asked := j.asked[n.Name]; asked && !s.pulls.has[key] && !s.pulls.stuck[n.Name] && s.hasAgent(n) && nodeReady(n) {
				ops = append(ops, op{words("%s has pulled %s", n.Name, j.Image), 8, func() { s.pulls.has[key] = true; s.lead.enqueue(s.lead.key) }})
			}
			if s.asks(j, n.Name) {
				ops = append(ops, op{words("%s asks %s to pull %s", j.Name, n.Name, j.Image), 8, func() {
					j.at[n.Name], j.asked[n.Name], j.ordered[n.Name] = s.moment, s.w.now, rollout.Time(s.lead.clock.Now().Truncate(time.Second).UnixNano())
					s.lead.enqueue(s.lead.key)
				}})
			}
		}
	}
	return ops
}

// asks is whether a job may ask a node now: it has an old pod, the set does not hold it back, and there is room for another pull.
func (s *sim) asks(j *pullJob, node string) bool {
	if _, asked := j.asked[node]; asked || s.pulls.has[node+" "+j.Image] {
		return false
	}
	_, held := s.lead.c.Order(j.owner)
	if held[node] || !slices.ContainsFunc(s.podsOn(node), func(p *corev1.Pod) bool { return live(p) && imageOf(p) != j.Image }) {
		return false
	}
	active := 0
	for other, at := range j.asked {
		if !s.pulls.has[other+" "+j.Image] && s.w.now.Sub(at) < 2*pullTimeout {
			active++
		}
	}
	return active < j.parallelism
}

// agentOps are agents that die and come back, and pulls that never end.
func (s *sim) agentOps(ops []op) []op {
	if !s.cfg.hasAgents() {
		return ops
	}
	for _, n := range s.w.nodes() {
		if n.Name == agentless {
			continue
		}
		turn := func(text string, dead bool) {
			ops = append(ops, op{words("the agent of %s %s", n.Name, text), 1, func() {
				s.pulls.dead[n.Name], s.pulls.turned[n.Name] = dead, s.moment
				for _, m := range s.managers() {
					if m.seen[ofPods] >= 0 {
						m.index.ObservePod(s.agentOf(n.Name))
					}
				}
			}})
		}
		if s.pulls.dead[n.Name] {
			turn("comes back", false)
		} else {
			turn("dies", true)
		}
		if s.cfg.waitsForImages() && !s.pulls.stuck[n.Name] {
			ops = append(ops, op{words("no pull on %s ends any more", n.Name), 1, func() { s.pulls.stuck[n.Name] = true }})
		}
	}
	return ops
}

// agentOf is the pod of the agent of a node, as an index has it: newer than all that a watch shows, also after the store was restored.
func (s *sim) agentOf(node string) clustercache.Pod {
	return clustercache.Pod{
		Namespace: everynode.AgentNamespace, Name: "agent-" + node, UID: types.UID("agent-" + node), RV: words("%d", 1<<30+s.moment), Node: node, Owner: "agents",
		Labels: map[string]string{everynode.AgentLabel: everynode.AgentName}, Generation: -1, Phase: rollout.Running, Scheduled: true, Ready: !s.pulls.dead[node],
	}
}

// agentPods are the pods of agents on all nodes that have one.
func (s *sim) agentPods() (list []*clustercache.Pod) {
	if !s.cfg.hasAgents() {
		return nil
	}
	for _, n := range s.w.nodes() {
		if n.Name != agentless {
			p := s.agentOf(n.Name)
			list = append(list, &p)
		}
	}
	return list
}

// meetAgents shows a manager the agents of nodes that have come since it listed pods.
func (m *manager) meetAgents() {
	s, known := m.s, m.index.Agents()
	if m.direct || m.seen[ofPods] < 0 || !s.cfg.hasAgents() {
		return
	}
	for _, n := range s.w.nodes() {
		if known[n.Name] == 0 && s.hasAgent(n) {
			s.pulls.turned[n.Name] = s.moment
			m.index.ObservePod(s.agentOf(n.Name))
		}
	}
}

// judgeWait looks at a change in place with another image that took effect: on a node with an agent it begins only when the image is there, or its time has
// ended. What was so since before the pass began, the manager has known.
func (s *sim) judgeWait(r *request, before, after *corev1.Pod) {
	node, image := nodeOf(before), imageOf(after)
	if !s.cfg.waitsForImages() || s.cfg.with("jumps") || !changesOpenly(after) || changing(before) || r.slow || r.m.noJob || node == agentless || s.pulls.dead[node] ||
		s.pulls.turned[node] >= r.moment || s.pulls.has[node+" "+image] {
		return
	}
	begins, why := s.waitBegan(r, node, image)
	slack := 2*(s.skew+s.otherSkew) + 2*time.Second
	switch waited := r.began.Sub(begins); {
	case begins.IsZero():
		s.blame("image", "%s %s to %s, which %s does not have, and there is no job", r.m.name, r.text, image, node)
	case waited < pullTimeout-slack:
		s.blame("image", "%s %s to %s, which %s does not have; %s %s before", r.m.name, r.text, image, node, why, waited)
	}
}

// waitBegan is when the wait of a node for an image began that has not got it, as far as the pass of a write could know, and by what.
func (s *sim) waitBegan(r *request, node, image string) (began time.Time, why string) {
	for _, j := range s.pulls.jobs {
		if j.Image != image || j.made >= r.moment || j.gone != 0 && j.gone < r.moment {
			continue
		}
		if step, asked := j.at[node]; asked && step < r.moment {
			return j.asked[node], "the node was asked"
		}
		began, why = j.born, "the job was created"
		for _, other := range sorted(j.asked) {
			if at := j.asked[other]; j.at[other] < r.moment && at.After(began) {
				began, why = at, other+" was asked"
			}
		}
		if at := r.m.heldAt[node]; at.After(began) {
			began, why = at, "the node was held back"
		}
	}
	return began, why
}

// judgeImages looks at the verdicts of a decision: no node waits for an image that it has, or on which there has been no agent since before the pass; nor is a
// node served that is held back.
func (s *sim) judgeImages(m *manager, plan *rollout.Plan, was *rollout.Snapshot) {
	if !s.cfg.waitsForImages() {
		return
	}
	for i, v := range plan.Verdicts {
		node := was.Nodes[i].Name
		switch v.Kind {
		case rollout.WaitPartition, rollout.WaitSelector, rollout.WaitPaused:
			m.heldAt[node] = s.w.now
		case rollout.WaitImage:
			if gone := node == agentless || s.pulls.dead[node] && s.pulls.turned[node] < m.moment; gone {
				s.blame("image", "%s says %v of %s, where no agent works", m.name, v.Kind, node)
			}
		}
	}
}

// judgeServed: after a pass without an error no job asks a node that the set holds back.
func (s *sim) judgeServed(m *manager) {
	set := s.w.set()
	if !s.cfg.waitsForImages() || set == nil || !slices.ContainsFunc(s.pulls.jobs, func(j *pullJob) bool { return j.gone == 0 && j.owner == set.GetUID() && j.made < m.moment }) {
		return
	}
	first, _ := m.c.Order(set.GetUID())
	for _, node := range first {
		switch m.verdicts[node] {
		case rollout.WaitPartition, rollout.WaitSelector, rollout.WaitPaused:
			s.blame("image", "%s has images pulled on %s, and says %v of it", m.name, node, m.verdicts[node])
		}
	}
}

// checkJobs: when every node is up to date, no job is left.
func (s *sim) checkJobs() {
	set := s.w.set()
	for _, j := range s.pulls.jobs {
		if set != nil && j.gone == 0 && j.owner == set.GetUID() && !slices.ContainsFunc(slices.Collect(maps.Values(s.lead.verdicts)), rollout.VerdictKind.Waits) {
			s.blame("image", "in the end there is the job %s", j.Name)
		}
	}
}

// tierLabel is the label that the side reads in a run with readers. It is the image, but v3 has that of v1: a change between these two restarts nothing. So
// the image still stands for the revision.
const tierLabel = "tier"

// readTier gives a template with a side the label of its image, and a variable that reads it.
func readTier(template map[string]any) {
	spec := template["spec"].(map[string]any)
	if readsTier(spec) {
		image := strings.Replace(baseOf(spec), "v3", "v1", 1)
		template["metadata"].(map[string]any)["labels"].(map[string]any)[tierLabel] = image
	}
}

// readsTier is whether a variable of the side reads the label.
func readsTier(spec map[string]any) bool {
	containers := spec["containers"].([]any)
	return len(containers) > 1 && containers[1].(map[string]any)["env"] != nil
}

// addTier gives the template of a set a side that reads the label.
func (c config) addTier(template map[string]any) {
	side := template["spec"].(map[string]any)["containers"].([]any)[1].(map[string]any)
	side["env"] = []any{map[string]any{"name": "TIER", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['" + tierLabel + "']"}}}}
	readTier(template)
}

// asksForRestart notes that a patch has changed what the side of a pod is restarted for. If a stranger has made another revision with the hash of the pod, it may be that one which differs.
func (s *sim) asksForRestart(before, after *corev1.Pod) {
	s.patched[after.UID] = s.w.now
	forged := slices.ContainsFunc(s.w.all(ofRevisions), func(o metav1.Object) bool {
		return imageOfRevision(o.(*appsv1.ControllerRevision)) == forgedImage && o.GetLabels()[appsv1.DefaultDaemonSetUniqueLabelKey] == before.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	})
	if forged || before.Labels[tierLabel] != after.Labels[tierLabel] || before.Annotations[everynode.RestartedAt] != after.Annotations[everynode.RestartedAt] {
		s.restartsAsked[after.UID] = s.containers
	}
}

// stale is whether the side of a pod was to be restarted, and the one that came instead has not read the newest label: the agent sees that in its environment.
func (s *sim) stale(p *corev1.Pod) bool {
	return s.cfg.readsLabels() && strings.Contains(p.Annotations[api.InPlaceUpdateState], `"restarts"`) && len(p.Status.ContainerStatuses) > 1 && s.tierOf[p.UID] != p.Labels[tierLabel]
}

// judgeRestart: no container is stopped that was started after the last request.
func (s *sim) judgeRestart(p *corev1.Pod) {
	if id := p.Status.ContainerStatuses[1].ContainerID; s.sideMade[p.UID] > s.restartsAsked[p.UID] && !s.stale(p) {
		s.blame("restart", "the side %s of %s is stopped, and nothing has asked for a restart since it was started", id, p.UID)
	}
}

// tooEarly is whether a pod whose side was to be restarted had not the time for that when a pass began.
func (s *sim) tooEarly(r *request, p *corev1.Pod) bool {
	at, patched := s.patched[p.UID]
	return patched && !s.cfg.with("jumps") && !s.cfg.with("slowness") && r.began.Sub(at) < rollout.RestartWithin+grace*time.Second-2*(s.skew+s.otherSkew)-2*time.Second
}

// checkTiers: in the end the environment of the side is that of the pod.
func (s *sim) checkTiers(all known) {
	for _, p := range s.w.pods() {
		if s.cfg.readsLabels() && all.alive(p) && all.newest(p) && works(p) && !byHand(all.set) && nodeReady(all.nodes[nodeOf(p)]) && all.fit(nodeOf(p)) == mustRun && len(p.Status.ContainerStatuses) > 1 && s.tierOf[p.UID] != p.Labels[tierLabel] {
			s.blame("restart", "in the end the side of %s runs with the label %q, and the pod has %q", p.UID, s.tierOf[p.UID], p.Labels[tierLabel])
		}
	}
}

// annotate adds to the annotations of a set.
func annotate(set *unstructured.Unstructured, key, value string) {
	all := set.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	set.SetAnnotations(all)
}
