// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/internal/ota"
)

// pod has the conditions that words say, each TYPE=STATUS:REASON:REVISION; the word deleting has it deleted.
func pod(words string) *corev1.Pod {
	p := &corev1.Pod{}
	for _, word := range strings.Fields(words) {
		kind, rest, _ := strings.Cut(word, "=")
		if kind == "deleting" {
			p.DeletionTimestamp = &metav1.Time{}
			continue
		}
		parts := strings.Split(rest, ":")
		c := corev1.PodCondition{Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(parts[0]), Reason: parts[1]}
		if parts[2] != "" {
			c.Message = "controllerrevision: " + parts[2]
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	return p
}

// TestJudgement: what a pod says of itself, and what follows.
func TestJudgement(t *testing.T) {
	const upgrade = "PodNeedUpgrade=True::new "
	for words, want := range map[string]struct {
		next      string
		old, said bool
		refusal   v2.Reason
		images    v2.ImageState
	}{
		"":                                   {refusal: v2.ReasonUpToDate, images: v2.ImagesNotRequested},
		"Ready=True::":                       {refusal: v2.ReasonUpToDate, images: v2.ImagesNotRequested},
		"PodNeedUpgrade=False::new":          {next: "new", said: true, refusal: v2.ReasonUpToDate, images: v2.ImagesNotRequested},
		"PodNeedUpgrade=Unknown::new":        {next: "new", said: true, refusal: v2.ReasonUpToDate, images: v2.ImagesNotRequested},
		"PodNeedUpgrade=True::":              {old: true, said: true, images: v2.ImagesNotRequested},
		upgrade:                              {next: "new", old: true, said: true, images: v2.ImagesNotRequested},
		upgrade + "deleting":                 {next: "new", old: true, said: true, refusal: v2.ReasonDeleting, images: v2.ImagesNotRequested},
		upgrade + "PodImageReady=False::new": {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesPulling},
		upgrade + "PodImageReady=True:PullImageSuccess:new":                     {next: "new", old: true, said: true, images: v2.ImagesReady},
		upgrade + "PodImageReady=True:PullImageSuccess:old":                     {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesOutdated},
		upgrade + "PodImageReady=False::old":                                    {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesOutdated},
		upgrade + "PodImageReady=False:PullImageFail:new":                       {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesFailed},
		upgrade + "PodImageReady=False:PullImageFail:old":                       {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesFailed},
		upgrade + "PodImageReady=False:PullImageFail:":                          {next: "new", old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesFailed},
		"PodNeedUpgrade=True:: PodImageReady=True:PullImageSuccess:new":         {old: true, said: true, refusal: v2.ReasonImagesNotReady, images: v2.ImagesReady},
		"PodNeedUpgrade=True:: PodImageReady=True::":                            {old: true, said: true, images: v2.ImagesReady},
		"PodNeedUpgrade=False::new deleting PodImageReady=False:PullImageFail:": {next: "new", said: true, refusal: v2.ReasonDeleting, images: v2.ImagesFailed},
	} {
		p := pod(words)
		next, old, said := ota.Announced(p)
		if next != want.next || old != want.old || said != want.said {
			t.Errorf("%q announces %q, %v, %v", words, next, old, said)
		}
		if got := ota.Refusal(p, next, old); got != want.refusal {
			t.Errorf("%q is refused for %q, want %q", words, got, want.refusal)
		}
		images := ota.ImagesOf(p, next)
		if images.State != want.images || (images.Message != "") != (want.images == v2.ImagesFailed && ota.Condition(p, "PodImageReady").Message != "") {
			t.Errorf("%q has images %+v, want %q", words, images, want.images)
		}
		if got := ota.Asked(p, next); got != (want.images == v2.ImagesPulling || want.images == v2.ImagesReady) {
			t.Errorf("%q: nothing has to be asked for is %v", words, got)
		}
	}
}
