// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// The annotations of the chart for Artifact Hub that a bundle has as well.
const (
	hubCategory    = "artifacthub.io/category"
	hubDefinitions = "artifacthub.io/crds"
)

// description is what catalogs show.
const description = `Rollout policies update DaemonSets of ` + "`apps/v1`" + ` in waves: with a canary, soak times, approvals, windows, analyses and an undo. The DaemonSet controller of Kubernetes continues to
create the pods, so nothing in the cluster is switched off. Everynode acts only on DaemonSets with the strategy ` + "`OnDelete`" + ` to which a RolloutPolicy applies.

Install it into the namespace ` + "`" + namespace + "`" + `, which its RoleBinding names.

This bundle serves the dialect ` + "`policy`" + ` alone. The Helm chart also installs Advanced DaemonSets, the agents of nodes, flow schemas and admission policies, which the Operator Lifecycle Manager
cannot install.`

// summary is what lists show.
const summary = "Updates DaemonSets in waves, next to the DaemonSet controller of Kubernetes."

// serviceVersion is the ClusterServiceVersion: what catalogs show of the version, and how OLM installs it.
func (b *bundle) serviceVersion() (object, error) {
	annotations, _ := b.chart["annotations"].(object)
	categories := map[string]string{"integration-delivery": "Integration & Delivery"}
	category, found := categories[fmt.Sprint(annotations[hubCategory])]
	if !found {
		return nil, fmt.Errorf("nothing says which category of OLM is the category %v of the chart", annotations[hubCategory])
	}
	oldest, _, found := strings.Cut(strings.TrimPrefix(fmt.Sprint(b.chart["kubeVersion"]), ">="), "-")
	if !found {
		return nil, fmt.Errorf("the kubeVersion %v of the chart has no oldest version", b.chart["kubeVersion"])
	}
	examples, err := json.Marshal([]object{b.example, approval()})
	if err != nil {
		return nil, err
	}
	owned, err := b.owned(annotations)
	if err != nil {
		return nil, err
	}
	install, err := b.install()
	if err != nil {
		return nil, err
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{
			"name": packageName + ".v" + b.number, "namespace": "placeholder",
			"annotations": object{
				"alm-examples": string(examples), "capabilities": "Basic Install", "categories": category, "containerImage": b.image,
				"description": summary, "operatorframework.io/suggested-namespace": namespace, "support": "Everynode",
			},
			"labels": object{"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported"},
		},
		"spec": object{
			"displayName": "Everynode", "description": description, "version": b.number, "minKubeVersion": oldest, "maturity": "alpha", "keywords": b.chart["keywords"],
			"provider": object{"name": "Everynode"}, "links": []object{{"name": "Everynode", "url": "https://everynode.dev"}},
			"icon": []object{{"base64data": base64.StdEncoding.EncodeToString(b.icon), "mediatype": "image/svg+xml"}},
			// The manager follows policies of all namespaces.
			"installModes": []object{
				{"type": "OwnNamespace", "supported": false}, {"type": "SingleNamespace", "supported": false}, {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
			},
			"install": install, "customresourcedefinitions": object{"owned": owned},
		},
	}, nil
}

// approval is an example of the definition that has no sample of its own, because people do not write it: kubectl everynode approve does.
func approval() object {
	return object{
		"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutApproval", "metadata": object{"name": "sample-canary"},
		"spec": object{
			"policy": "canary", "set": "sample", "revision": "sample-6d4cf56db6", "wave": "canary", "decision": "Approve",
		},
	}
}

// owned describes the definitions of the bundle, in the words of the chart.
func (b *bundle) owned(annotations object) ([]object, error) {
	var described []struct{ Kind, Version, Name, DisplayName, Description string }
	if err := yaml.Unmarshal([]byte(fmt.Sprint(annotations[hubDefinitions])), &described); err != nil {
		return nil, fmt.Errorf("reading the annotation %s of the chart: %w", hubDefinitions, err)
	}
	var owned []object
	for _, definition := range b.definitions {
		metadata, _ := definition["metadata"].(object)
		for _, d := range described {
			if d.Name == metadata["name"] {
				owned = append(owned, object{"kind": d.Kind, "version": d.Version, "name": d.Name, "displayName": d.DisplayName, "description": d.Description})
			}
		}
	}
	if len(owned) != len(b.definitions) {
		return nil, fmt.Errorf("the annotation %s of the chart describes %d of %d definitions", hubDefinitions, len(owned), len(b.definitions))
	}
	return owned, nil
}

// install is what OLM makes: the Deployment, its account, and the permissions that the account has in the whole cluster.
func (b *bundle) install() (object, error) {
	metadata, _ := b.deployment["metadata"].(object)
	spec, _ := b.deployment["spec"].(object)
	template, _ := spec["template"].(object)
	pod, _ := template["spec"].(object)
	containers, _ := pod["containers"].([]any)
	security, _ := pod["securityContext"].(object)
	if len(containers) != 1 || len(b.rules) == 0 || security == nil {
		return nil, errors.New("config/manager/deployment.yaml or config/install/10-manager.yaml has another form than the bundle expects")
	}
	// OpenShift gives each namespace users of its own. The image has a user that is not root.
	delete(security, "runAsUser")
	delete(security, "runAsGroup")
	container, _ := containers[0].(object)
	container["image"] = b.image
	container["args"] = []string{"--dialects=policy", "--deployment=" + manager}
	return object{
		"strategy": "deployment",
		"spec": object{
			"clusterPermissions": []object{{"serviceAccountName": manager, "rules": b.rules}},
			"deployments":        []object{{"name": metadata["name"], "label": metadata["labels"], "spec": spec}},
		},
	}, nil
}
