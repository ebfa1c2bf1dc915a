// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"encoding/json"
	"fmt"
	"time"

	"everynode.dev/everynode/internal/policy"
)

// TypePrefix begins the attribute type of each event.
const TypePrefix = "dev.everynode.rollout."

// contentType is the content type of a CloudEvent in structured mode.
const contentType = "application/cloudevents+json; charset=UTF-8"

// maxText is how long a sentence in an event may be.
const maxText = 2048

// event is a CloudEvent 1.0. The SDK of CloudEvents would add its own encoder of JSON and a generator of identities for these eight attributes; the tests on a
// plane read events with it.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            data   `json:"data"`
}

// data describes what has happened. Fields are added, and never change their meaning.
type data struct {
	APIVersion        string  `json:"apiVersion"`
	Kind              string  `json:"kind"`
	Namespace         string  `json:"namespace"`
	Name              string  `json:"name"`
	UID               string  `json:"uid"`
	Dialect           string  `json:"dialect"`
	Policy            string  `json:"policy"`
	Revision          string  `json:"revision"`
	RevisionNumber    int64   `json:"revisionNumber"`
	CommittedRevision string  `json:"committedRevision,omitempty"`
	Wave              string  `json:"wave,omitempty"`
	Counts            *counts `json:"counts,omitempty"`
	Reason            string  `json:"reason"`
	Next              string  `json:"next,omitempty"`
}

// counts are numbers of nodes.
type counts struct {
	Nodes     int32 `json:"nodes"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`
	Failed    int32 `json:"failed"`
}

// message is an event that is to be sent.
type message struct {
	id, kind, subject string
	// namespace is the namespace of the set.
	namespace string
	body      []byte
	// queued is when it was put into the queue.
	queued time.Time
}

// encode returns the message about a notice.
func encode(n *policy.Notice, source string, now time.Time) (*message, error) {
	e := event{
		SpecVersion: "1.0", ID: n.ID(), Source: source, Type: TypePrefix + string(n.Type),
		Subject: fmt.Sprintf("/apis/%s/namespaces/%s/daemonsets/%s", n.Set.APIVersion(), n.Set.Namespace, n.Set.Name),
		Time:    time.Unix(0, int64(n.At)).UTC().Format(time.RFC3339), DataContentType: "application/json",
		Data: data{
			APIVersion: n.Set.APIVersion(), Kind: "DaemonSet", Namespace: n.Set.Namespace, Name: n.Set.Name, UID: string(n.UID), Dialect: n.Dialect, Policy: n.Policy,
			Revision: n.Revision, RevisionNumber: n.Number, CommittedRevision: n.Committed, Wave: n.Wave,
			Reason: policy.Shortened(n.Reason, maxText), Next: policy.Shortened(n.Next, maxText),
		},
	}
	if n.Counts != nil {
		e.Data.Counts = &counts{n.Counts.Nodes, n.Counts.Updated, n.Counts.Available, n.Counts.Failed}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding an event: %w", err)
	}
	return &message{id: e.ID, kind: e.Type, subject: e.Subject, namespace: n.Set.Namespace, body: body, queued: now}, nil
}
