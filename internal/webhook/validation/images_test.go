// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/webhook/defaulting"
)

func TestImagePullJob(t *testing.T) {
	for _, e := range []struct {
		edits edits
		want  string
	}{
		{nil, ""},
		{edits{"spec parallelism", "0"}, ""},
		{edits{"spec selector", `{"names":["a","b"]}`}, ""},
		{edits{"spec selector", `{"matchLabels":{"a":"b"}}`}, ""},
		{edits{"spec podSelector", `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`}, ""},
		{edits{"spec completionPolicy", `{"type":"Never"}`}, ""},
		{edits{"spec completionPolicy", `{"type":"Always","activeDeadlineSeconds":601,"ttlSecondsAfterFinished":0}`}, ""},
		{edits{"spec", ""}, "spec: Required value: an image pull job needs a specification"},
		{edits{"spec image", `""`}, "spec.image: Required value: image can not be empty"},
		{edits{"spec image", `"A:b"`}, `spec.image: Invalid value: "A:b": invalid image A:b: "A:b" is not the name of an image: ` +
			`invalid reference format: repository name (library/A) must be lowercase (write for example registry.example.com/team/agent:v1)`},
		{edits{"spec images", `[]`}, "spec.images: Forbidden: unknown field \"spec.images\": an image pull job has none of this name; remove it, or correct its name"},
		{edits{"spec pullSecrets", `["a b"]`}, `spec.pullSecrets[0]: Invalid value: "a b": a lowercase RFC 1123 subdomain must consist of`},
		{edits{"spec selector", `{}`, "spec podSelector", `{}`}, "spec.selector: Forbidden: can not set both selector and podSelector"},
		{edits{"spec selector", `{"names":["a"],"matchLabels":{"a":"b"}}`}, "spec.selector: Forbidden: can not set both names and labelSelector in this spec.selector"},
		{edits{"spec selector", `{"names":["a","a"]}`}, `spec.selector.names[1]: Duplicate value: "a": duplicated name in selector names`},
		{edits{"spec selector", `{"matchExpressions":[{"key":"a","operator":"x"}]}`}, `spec.selector.matchExpressions[0].operator: Invalid value: "x": not a valid selector operator`},
		{edits{"spec podSelector", `{"matchLabels":{"a":"b c"}}`}, "spec.podSelector.matchLabels: Invalid value"},
		{edits{"spec parallelism", `"10%"`}, `spec.parallelism: Invalid value: "10%": parallelism does not support percentage value`},
		{edits{"spec parallelism", "-1"}, "spec.parallelism: Invalid value: -1: parallelism must be non-negative"},
		{edits{"spec imagePullPolicy", `"Never"`}, `spec.imagePullPolicy: Unsupported value: "Never": supported values: "Always", "IfNotPresent"`},
		{edits{"spec pullPolicy timeoutSeconds", "0"}, "spec.pullPolicy.timeoutSeconds: Invalid value: 0: must be greater than 0"},
		{edits{"spec pullPolicy backoffLimit", "-1"}, "spec.pullPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0"},
		{edits{"spec completionPolicy", `{"type":"Once"}`}, `spec.completionPolicy.type: Unsupported value: "Once": unknown type of completionPolicy: Once: supported values: "Always", "Never"`},
		{edits{"spec completionPolicy", `{"type":"Never","ttlSecondsAfterFinished":1}`},
			"spec.completionPolicy: Forbidden: activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType"},
		{edits{"spec completionPolicy", `{"type":"Always","activeDeadlineSeconds":600}`},
			"spec.completionPolicy.activeDeadlineSeconds: Invalid value: 600: completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)"},
		{edits{"spec completionPolicy", `{"ttlSecondsAfterFinished":-1}`}, "spec.completionPolicy.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0"},
	} {
		for _, version := range []string{alpha, beta} {
			obj := parse(t, `{"apiVersion":"`+version+`","kind":"ImagePullJob","metadata":{"name":"pull"},"spec":{"image":"agent:1"}}`)
			for i := 0; i < len(e.edits); i += 2 {
				set(t, obj, e.edits[i], e.edits[i+1])
			}
			defaulting.ImagePullJob(obj)
			got := strings.Join(lines(ImagePullJob(obj, nil)), "\n")
			if !strings.HasPrefix(got, e.want) || (e.want == "") != (got == "") {
				t.Errorf("%s %q:\ngot  %s\nwant %s", version, e.edits, got, e.want)
			}
		}
	}
}

func TestImagePullJobUpdate(t *testing.T) {
	read := func(spec string) map[string]any {
		return parse(t, `{"apiVersion":"`+beta+`","kind":"ImagePullJob","metadata":{"name":"pull"},"spec":`+spec+`}`)
	}
	const rest = `"image":"a:1","completionPolicy":{"type":"Always"}`
	one, other := `{"pullSecrets":["a"],`+rest+`}`, `{"pullSecrets":["b"],`+rest+`}`
	if got := lines(ImagePullJob(read(other), read(one))); !slices.Equal(got, []string{"spec.pullSecrets: Forbidden: spec.pullSecrets is immutable"}) {
		t.Errorf("got %q", got)
	}
	if got := lines(ImagePullJob(read(`{"parallelism":3,`+rest+`}`), read(`{`+rest+`}`))); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := lines(ImagePullJob(read(`{"image":""}`), read(`{"image":""}`))); len(got) > 0 {
		t.Errorf("what was invalid already cannot be labelled: %q", got)
	}
}

func TestNodeImage(t *testing.T) {
	const tag = `"createdAt":"2026-01-01T00:00:00Z","pullPolicy":{}`
	many := strings.Builder{}
	for i := range MostImages + 1 {
		fmt.Fprintf(&many, `,"i%d":{"tags":[]}`, i)
	}
	for spec, want := range map[string]string{
		`{}`: "",
		`{"images":{"a":{"tags":[{"tag":"1",` + tag + `},{"tag":"2",` + tag + `}]}}}`: "",
		`{"images":{` + many.String()[1:] + `}}`:                                      "spec.images: Invalid value: 257: spec images length 257 can not be more than 256",
		`{"images":{"":{"tags":[]}}}`:                                                 "spec.images[]: Required value: image name can not be empty",
		`{"images":{"a":{"tags":[{` + tag + `}]}}}`:                                   "spec.images[a].tags[0].tag: Required value: tag for image a can not be empty",
		`{"images":{"a":{"tags":[{"tag":"1",` + tag + `},{"tag":"1",` + tag + `}]}}}`: `spec.images[a].tags[1].tag: Duplicate value: "1": duplicated tag 1 for image a`,
		`{"images":{"a":{"tags":[{"tag":"1","pullPolicy":{}}]}}}`:                     "spec.images[a].tags[0].createdAt: Required value: createAt field for a/1 can not be empty",
		`{"images":{"a":{"tags":[{"tag":"1","version":-1,` + tag + `}]}}}`:            "spec.images[a].tags[0].version: Invalid value: -1: version for a/1 can not be less than 0",
		`{"images":{"a":{"tags":[{"tag":"1","createdAt":"2026-01-01T00:00:00Z"}]}}}`:  "spec.images[a].tags[0].pullPolicy: Required value: pullPolicy field for a/1 must set",
		`{"images":{"a":{"tag":[]}}}`:                                                 "spec.images.a.tag: Forbidden: unknown field \"spec.images.a.tag\": a node image has none of this name",
		`{"images":[]}`:                                                               "spec: Invalid value: json: cannot unmarshal array",
	} {
		obj := parse(t, `{"kind":"NodeImage","metadata":{"name":"n1"},"spec":`+spec+`}`)
		got := strings.Join(lines(NodeImage(obj, nil)), "\n")
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s:\ngot  %s\nwant %s", spec, got, want)
		}
	}
}

func TestSampleOfAJob(t *testing.T) {
	data, err := os.ReadFile("../../../docs/samples/image-pull-job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	obj := parse(t, string(text))
	defaulting.ImagePullJob(obj)
	if got := lines(ImagePullJob(obj, nil)); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
