// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/rbac"
)

// roles returns the roles that the manager needs for the dialect, for its webhooks, and for image pulls.
func roles() []rbac.Role {
	return []rbac.Role{{
		Name: "everynode-manager-kruise", Program: rbac.Manager, For: "the dialect kruise",
		Rules: []rbac.Rule{
			{Group: kruise.Group, Resource: "daemonsets", Verbs: []string{"get", "list", "watch"}, Why: "what is wanted"},
			{Group: kruise.Group, Resource: "daemonsets/status", Verbs: []string{"patch"}, Why: "how far it is"},
			{Group: kruise.Group, Resource: "daemonsets/finalizers", Verbs: []string{"update"}, Unseen: []string{"update"}, Why: "as for DaemonSets of apps"},
			{
				Group: kruise.Group, Resource: "imagepulljobs", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, Rare: []string{"get"},
				Why: "runs them, and makes them for updates; patch removes the finalizer that OpenKruise has set; get is for a name that another object already has, which is rare",
			},
			{Group: kruise.Group, Resource: "imagepulljobs/status", Verbs: []string{"update"}, Why: "how far a job is"},
			{
				Group: kruise.Group, Resource: "nodeimages", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, Rare: []string{"get"},
				Why: "one for every node, with what it is to pull; get is for a write whose result is not known",
			},
			{Group: kruise.Group, Resource: "nodeimages/status", Verbs: []string{"patch"}, Why: "gives up for nodes that say nothing any more"},
			{Group: "", Resource: "pods/status", Verbs: []string{"patch"}, Why: "conditions of pods that are changed in place, or marked as not ready by a hook"},
			{
				Group: "", Resource: "pods/resize", Verbs: []string{"patch"},
				Why: "resources of running pods, with the feature InPlaceWorkloadVerticalScaling, and where OpenKruise has left such a change unfinished",
			},
			{Group: "", Resource: "podtemplates", Verbs: []string{"create"}, Why: "pod templates are checked by creating one without storing it"},
			{Group: "coordination.k8s.io", Resource: "leases", Names: []string{"kruise-manager"}, Verbs: []string{"get"}, Why: "while OpenKruise's own manager holds it, the dialect writes nothing"},
			{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Names: []string{"everynode-mutating"}, Verbs: []string{"get", "list", "watch", "update"}, Rare: []string{"list"},
				Why: "publishes how the API server reaches the webhooks; list is for API servers that do not send a first list by watch"},
			{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Names: []string{"everynode-validating"}, Verbs: []string{"get", "list", "watch", "update"}, Rare: []string{"list"}, Why: "the same"},
			{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Names: []string{"daemonsets.apps.kruise.io"}, Verbs: []string{"get", "list", "watch", "update"}, Rare: []string{"list"}, Why: "the same, for the conversion of versions; and whether the CRD is Everynode's"},
			{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Names: []string{"imagepulljobs.apps.kruise.io", "nodeimages.apps.kruise.io"}, Verbs: []string{"get"}, Why: "whether the CRDs are Everynode's"},
		},
	}, {
		Name: "everynode-manager-kruise", Namespace: "everynode-system", Program: rbac.Manager, For: "the certificate of the webhooks",
		Rules: []rbac.Rule{
			{Group: "", Resource: "secrets", Verbs: []string{"create"}, Why: "a create cannot be limited to a name"},
			{Group: "", Resource: "secrets", Names: []string{"everynode-webhook-certs"}, Verbs: []string{"get", "update"}, Why: "keeps and renews it"},
		},
	}, {
		Name: "everynode-manager-pull-secrets", Namespace: "kruise-daemon-config", Program: rbac.Manager, For: "pull secrets of jobs, where agents read them",
		Rules: []rbac.Rule{
			{Group: "", Resource: "secrets", Verbs: []string{"get", "list", "create", "update", "delete"}, Why: "copies of pull secrets, kept while a job needs them"},
		},
	}, {
		Name: "everynode-manager-read-pull-secrets", Program: rbac.Manager, For: "pull secrets of jobs, where they come from",
		BoundBy: "a RoleBinding in each namespace of --pull-secret-namespaces, never a ClusterRoleBinding",
		Rules: []rbac.Rule{
			{Group: "", Resource: "secrets", Verbs: []string{"get"}, Why: "the secrets that a job names"},
		},
	}}
}
