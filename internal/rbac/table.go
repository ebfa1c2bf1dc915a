// SPDX-License-Identifier: Apache-2.0

package rbac

// Groups of resources.
const (
	core          = ""
	apps          = "apps"
	kruise        = "apps.kruise.io"
	everynode     = "everynode.dev"
	coordination  = "coordination.k8s.io"
	authenticates = "authentication.k8s.io"
	authorizes    = "authorization.k8s.io"
)

// ComeBackFirst is the role that the manager needs with --come-back-first-namespaces.
const ComeBackFirst = "everynode-manager-come-back-first"

// OfManager are the roles of every manager. A dialect has further ones in its registration.
func OfManager() []Role {
	return []Role{{
		Name: "everynode-manager", Program: Manager, For: "every manager, and the native dialect",
		Rules: []Rule{
			{Group: core, Resource: "nodes", Verbs: []string{"list", "watch"}, Why: "which nodes there are, and which pods they may have"},
			{
				Group: core, Resource: "pods", Verbs: []string{"get", "list", "watch", "create", "delete", "patch"},
				Why: "pods are what it is about; patch takes over and releases those that have another owner, and changes them in place",
			},
			{Group: apps, Resource: "daemonsets", Verbs: []string{"get", "list", "watch"}, Why: "what is wanted; get reads a set again before its history is written"},
			{Group: apps, Resource: "daemonsets/status", Verbs: []string{"patch"}, Why: "how far it is"},
			{
				Group: apps, Resource: "daemonsets/finalizers", Verbs: []string{"update"}, Unseen: []string{"update"},
				Why: "a pod's reference to its owner blocks the deletion of the owner; where the plugin OwnerReferencesPermissionEnforcement is on, setting it needs this",
			},
			{
				Group: apps, Resource: "controllerrevisions", Verbs: []string{"get", "list", "watch", "create", "delete", "patch"},
				Rare: []string{"get"}, Why: "the history of sets; get is for a name that another object already has, which is rare",
			},
			{Group: core, Resource: "events", Verbs: []string{"create", "patch"}, Why: "what it has done, reported on the sets"},
			{Group: everynode, Resource: "rolloutpolicies", Verbs: []string{"list", "watch"}, Rare: []string{"list"}, Why: "in which waves, and when, daemon sets are updated; list is for API servers that do not send a first list by watch"},
			{Group: everynode, Resource: "rolloutapprovals", Verbs: []string{"list", "watch"}, Rare: []string{"list"}, Why: "which waves a person has approved; the manager cannot approve; list as above"},
			{Group: everynode, Resource: "rolloutpolicies/status", Verbs: []string{"patch"}, Rare: []string{"patch"}, Why: "how far each rollout has come; only where there is a policy"},
			{Group: everynode, Resource: "rolloutapprovals/status", Verbs: []string{"patch"}, Rare: []string{"patch"}, Why: "whether an approval counts; only where there is one"},
		},
	}, {
		Name: "everynode-manager", Namespace: "everynode-system", Program: Manager, For: "every manager, in its own namespace",
		Rules: []Rule{
			{Group: coordination, Resource: "leases", Verbs: []string{"create"}, Why: "the lease of the leader; a create cannot be limited to a name"},
			{Group: coordination, Resource: "leases", Names: []string{"everynode-manager"}, Verbs: []string{"get", "update"}, Why: "the same"},
			{Group: coordination, Resource: "leases", Names: []string{"everynode-manager-slow-writes"}, Verbs: []string{"get", "update"}, Rare: []string{"update"}, Why: "held while a write is under way that a webhook makes slow, so that the next leader waits for it"},
			{Group: apps, Resource: "daemonsets", Verbs: []string{"create"}, Why: "the probe that shows whether another controller is at work; a create cannot be limited to a name"},
			{Group: apps, Resource: "daemonsets", Names: []string{"everynode-probe"}, Verbs: []string{"patch"}, Why: "the same"},
			{
				Group: apps, Resource: "deployments", Names: []string{"everynode-manager"}, Verbs: []string{"get"}, Rare: []string{"get"},
				Why: "a leader that is asked to stop looks whether its own Deployment is scaled to zero, and then ends what is under way first; only with --deployment",
			},
		},
	}, {
		Name: "everynode-manager-image-pulls", Program: Manager, For: "images before an update, without the dialect kruise",
		BoundBy: "administrators who let OpenKruise's own manager serve ImagePullJobs, and want images pulled ahead",
		Rules: []Rule{
			{Group: kruise, Resource: "imagepulljobs", Verbs: []string{"get", "list", "watch", "create", "delete"}, Why: "the jobs for a new revision", Unseen: []string{"get", "list", "watch", "create", "delete"}},
			{Group: kruise, Resource: "nodeimages", Verbs: []string{"list", "watch"}, Why: "whether the images are there", Unseen: []string{"list", "watch"}},
		},
	}, {
		Name: ComeBackFirst, Program: Manager, For: "sets whose pods come back first",
		BoundBy: "a ClusterRoleBinding where --come-back-first-namespaces is set; with the chart, manager.comeBackFirstNamespaces",
		Rules: []Rule{
			{Group: core, Resource: "nodes", Verbs: []string{"patch"}, Rare: []string{"patch"}, Why: "the taint everynode.dev/waits-for-daemon-pods of nodes that come back: put there only where a set asks for that, and removed"},
		},
	}}
}

// OfAgent are the roles of the agents.
func OfAgent() []Role {
	return []Role{{
		Name: "everynode-agent", Program: Agent, For: "every agent; writes are confined to its own node by the policy everynode-agent-own-node",
		Rules: []Rule{
			{Group: kruise, Resource: "nodeimages", Verbs: []string{"list", "watch"}, Unseen: []string{"list"}, Why: "what its node is to pull; list is for API servers that do not send a first list by watch"},
			{Group: kruise, Resource: "nodeimages/status", Verbs: []string{"patch"}, Why: "how far it is"},
			{Group: core, Resource: "events", Verbs: []string{"create", "patch"}, Why: "what was pulled, and what the owner of the node has had done"},
			{
				Group: core, Resource: "pods", Verbs: []string{"get", "list", "watch", "delete"}, Unseen: []string{"list"},
				Why: "the API of the node: shows the pods of the node, and upgrades one by deleting it; list as above",
			},
			{Group: core, Resource: "pods/status", Verbs: []string{"patch"}, Why: "the API of the node: the condition PodImageReady"},
			{Group: apps, Resource: "controllerrevisions", Verbs: []string{"list"}, Why: "the API of the node: the images of the next revision"},
			{
				Group: kruise, Resource: "daemonsets", Verbs: []string{"get"}, Unseen: []string{"get"},
				Why: "the API of the node: the next revision of an Advanced DaemonSet, which only the simulated and the real nodes of planes have",
			},
			{Group: authenticates, Resource: "tokenreviews", Verbs: []string{"create"}, Why: "the API of the node: whose token it was shown"},
			{Group: authorizes, Resource: "subjectaccessreviews", Verbs: []string{"create"}, Why: "the API of the node: what they may do"},
		},
	}, {
		Name: "everynode-agent", Namespace: "kruise-daemon-config", Program: Agent, For: "pull secrets of jobs",
		Rules: []Rule{
			{Group: core, Resource: "secrets", Verbs: []string{"get"}, Why: "a secret that its NodeImage names; it cannot list them"},
		},
	}}
}
