// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/rollout"
)

// Dialect is everything that the loop needs to know of one
type Dialect struct {
	Source Source
	GVK    schema.GroupVersionKind
	// StatusPatch is a patch of the status subresource, as Sets.PatchStatus sends it; false when there is nothing to change.
	StatusPatch func(w *Workload, r Report) ([]byte, bool)
	Texts       *Texts
	// Edits are the further writes to pods that the dialect makes; InPlace reports whether a pod of one template
	// can be changed in place into a pod of another. Both are nil for a dialect that recreates every pod.
	Edits   Edits
	InPlace func(from, to map[string]any) rollout.Change
	// Announce makes the edits by which pods announce whether there is a newer revision; nil for a dialect whose pods do not.
	Announce AnnounceFunc
	// Predownload reports whether images are pulled ahead of an update, and updates may wait for them.
	Predownload bool
	// MayWrite is asked at the beginning of each pass; false keeps the dialect from writing anything.
	MayWrite func() bool
	// MayAnnotate is also called where annotations of OpenYurt are read in addition to the specification; while
	// it returns false, these annotations are ignored. It is nil where they are not read, or where MayWrite is
	// sufficient.
	MayAnnotate func() bool
}

// Source is one dialect's kind of daemon set.
type Source struct {
	// Dialect is the name of the dialect, as in clustercache.Key.
	Dialect  string
	Resource schema.GroupVersionResource
	Kind     string
	// Digest reads a Workload out of an undecoded object. It must not keep or change parts of it other than the template.
	Digest func(obj map[string]any) Workload
	// Ignore, if not nil, selects objects that are ignored completely.
	Ignore func(namespace, name string) bool
	// Optional reports whether the manager waits for the sets only for a while. Until they can be read there are none in the index, or those that were read before.
	Optional bool
}

// Texts are the reasons and messages of the events about writes, which differ between dialects.
type Texts struct {
	Created, CreateFailed, Deleted, DeleteFailed                 string // reasons
	CreatedText, CreateFailedText, DeletedText, DeleteFailedText string // formats with one argument: the pod's name, or the error
	// Patched and PatchFailed are reasons of events about changes in place; the formats have the pod's name, and of a failure
	// also the revision and the error, as arguments.
	Patched, PatchFailed, PatchedText, PatchFailedText string
	// AnnounceFailed is the reason of events about announcements that failed; the format has the pod's name and the error as arguments.
	AnnounceFailed, AnnounceFailedText string
	// Note gives type, reason and message of the event for a note; an empty reason sends none.
	Note func(note rollout.Note, namespace, node string) (eventType, reason, message string)
}
