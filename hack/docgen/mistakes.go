// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"everynode.dev/everynode/internal/webhook/defaulting"
	"everynode.dev/everynode/internal/webhook/validation"
)

// sample is an Advanced DaemonSet that nothing can be said against.
const sample = `{"apiVersion":"apps.kruise.io/%s","kind":"DaemonSet","metadata":{"name":"agent","namespace":"default"},"spec":{
	"selector":{"matchLabels":{"app":"agent"}},
	"template":{"metadata":{"labels":{"app":"agent"}},"spec":{"restartPolicy":"Always","containers":[{"name":"agent","image":"agent:1"}]}}}}`

// input is an example of user input: values, as JSON, by the path of a field. An annotation is a path that begins
// with "annotation ".
type input struct {
	version string // v1beta1 unless given
	lines   []string
}

// mistakes are the inputs for which the reference shows the error. Each must have one.
func mistakes() []input {
	const rolling = "spec.updateStrategy.rollingUpdate."
	write := func(lines ...string) input { return input{"v1beta1", lines} }
	return []input{
		write("spec.selector", `{}`),
		write("spec.selector", `{"matchLabels":{"app":"other"}}`),
		write("spec.template.spec.restartPolicy", `"Never"`),
		write("spec.template.spec.activeDeadlineSeconds", `60`),
		write("spec.replicas", `3`),
		write("spec.minReadySeconds", `-1`),
		write("spec.revisionHistoryLimit", `-1`),
		write("spec.burstReplicas", `0`),
		write("spec.burstReplicas", `"many"`),
		write("spec.burstReplicas", `99999999999`),
		write("spec.updateStrategy.type", `"Recreate"`),
		write(rolling+"type", `"InPlaceIfPossible"`),
		write(rolling+"rollingUpdateType", `"Fast"`),
		write(rolling+"maxUnavailable", `1`, rolling+"maxSurge", `1`),
		write(rolling+"maxUnavailable", `0`),
		write(rolling+"maxUnavailable", `"150%"`),
		write(rolling+"maxSurge", `-1`),
		write(rolling+"rollingUpdateType", `"InPlaceIfPossible"`, rolling+"maxSurge", `1`),
		{"v1alpha1", []string{rolling + "rollingUpdateType", `"Surging"`, rolling + "maxUnavailable", `2`}},
		write(rolling+"partition", `"half"`),
		write(rolling+"selector", `{"matchExpressions":[{"key":"zone","operator":"In"}]}`),
		write("spec.lifecycle.inPlaceUpdate", `{}`),
		write("spec.lifecycle.preNormal", `{}`),
		write("spec.lifecycle.preDelete", `{"labelsHandler":{"a":"b c"}}`),
		write("spec.lifecycle.preDelete", `{"finalizersHandler":["blocker"]}`),
		write("spec.lifecycle.preDelete", `{"markPodNotReady":true}`),
		write("annotation daemonset.kruise.io/progressive-create-pod", `"yes"`),
		write("annotation daemonset.kruise.io/progressive-create-pod", `"true"`, "spec.scaleStrategy.partitionedScaling", `false`),
		write("annotation apps.kruise.io/image-predownload-parallelism", `"10%"`),
		write("annotation everynode.dev/in-place-grace-seconds", `"10s"`),
		write("annotation everynode.dev/max-replacing", `"0"`),
	}
}

// doubtful are the inputs for which the reference shows the warnings.
func doubtful() []input {
	const rolling = "spec.updateStrategy.rollingUpdate."
	return []input{
		{"v1alpha1", []string{rolling + "rollingUpdateType", `"Surging"`}},
		{"v1beta1", []string{"spec.updateStrategy", `{"type":"OnDelete","rollingUpdate":{"paused":true}}`}},
		{"v1beta1", []string{rolling + "maxSurge", `1`, "spec.template.spec.containers", `[{"name":"agent","image":"agent:1","ports":[{"containerPort":80,"hostPort":80}]}]`}},
		{"v1beta1", []string{rolling + "maxSurge", `1`, "spec.template.spec.hostNetwork", `true`, "spec.template.spec.containers", `[{"name":"agent","image":"agent:1","ports":[{"containerPort":80}]}]`}},
		{"v1beta1", []string{"spec.lifecycle.preDelete", `{"labelsHandler":{"app":"agent"}}`}},
	}
}

// answer is an input and what is said to it.
type answer struct {
	Input   string
	Answers []string
}

// refused asks validation, so that the reference says what the webhook says.
func refused() ([]answer, error) {
	return ask(mistakes(), func(r validation.Result) []string {
		var all []string
		for _, err := range r.Errors {
			all = append(all, err.Error())
		}
		return all
	})
}

func warned() ([]answer, error) {
	return ask(doubtful(), func(r validation.Result) []string { return r.Warnings })
}

func ask(inputs []input, answers func(validation.Result) []string) (all []answer, err error) {
	for _, in := range inputs {
		obj := map[string]any{}
		if err := json.Unmarshal(fmt.Appendf(nil, sample, in.version), &obj); err != nil {
			return nil, err
		}
		var written []string
		for i := 0; i < len(in.lines); i += 2 {
			written = append(written, strings.TrimPrefix(in.lines[i], "annotation ")+": "+in.lines[i+1])
			var value any
			if err := json.Unmarshal([]byte(in.lines[i+1]), &value); err != nil {
				return nil, fmt.Errorf("%s: %w", in.lines[i+1], err)
			}
			set(obj, in.lines[i], value)
		}
		defaulting.Default(obj)
		a := answer{Input: strings.Join(written, ", "), Answers: answers(validation.Create(obj, validation.Options{}))}
		if in.version != "v1beta1" {
			a.Input += " (" + in.version + ")"
		}
		if len(a.Answers) == 0 {
			return nil, fmt.Errorf("nothing is said to %s: the reference shows what is answered to it, so take it out there or see to it that it is answered", a.Input)
		}
		all = append(all, a)
	}
	return all, nil
}

// set puts a value at the path below obj.
func set(obj map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	if name, ok := strings.CutPrefix(path, "annotation "); ok {
		keys = []string{"metadata", "annotations", name}
	}
	for _, key := range keys[:len(keys)-1] {
		child, ok := obj[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			obj[key] = child
		}
		obj = child
	}
	obj[keys[len(keys)-1]] = value
}
