// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"bytes"
	"encoding/binary"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/clustercache"
)

// NewPods returns a client whose watches of pods decode of each pod only what the index reads: only the
// metadata of a pod that no daemon set can own, and everything of others, but never the managed fields, which
// are nearly half of a pod. Input that an API server would not write is decoded by client-go.
func NewPods(cfg *rest.Config) (typedcorev1.PodsGetter, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = leanSerializer{scheme.Codecs.WithoutConversion()}
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client of pods: %w", err)
	}
	return typedcorev1.New(client), nil
}

// leanSerializer is the serializer of client-go, except for pods in protobuf.
type leanSerializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s leanSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	all := append([]runtime.SerializerInfo{}, s.NegotiatedSerializer.SupportedMediaTypes()...)
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			all[i].Serializer = leanDecoder{all[i].Serializer}
		}
	}
	return all
}

// leanDecoder decodes pods leanly, and leaves everything else to client-go.
type leanDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d leanDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		if pod := leanPod(data); pod != nil {
			kind := corev1.SchemeGroupVersion.WithKind("Pod")
			pod.SetGroupVersionKind(kind)
			return pod, &kind, nil
		}
	}
	return d.Serializer.Decode(data, defaults, into)
}

// Numbers of fields in protobuf. They never change: what is stored has them.
const (
	envelopeType, envelopeRaw, envelopeEncoding, envelopeContent = 1, 2, 3, 4 // of runtime.Unknown
	podMetadata, podSpec, podStatus                              = 1, 2, 3
	metaManagedFields                                            = 17
)

// The types of fields are the lowest bits of a tag.
const ofType, ofNumber, ofBytes = 7, 0, 2

const (
	envelopePrefix = "k8s\x00"
	podType        = "\n\x02v1\x12\x03Pod" // a runtime.TypeMeta
)

// leanPod decodes a pod in its envelope; nil if it is none, or anything is not where an API server writes it.
func leanPod(data []byte) *corev1.Pod {
	envelope, ok := bytes.CutPrefix(data, []byte(envelopePrefix))
	if !ok {
		return nil
	}
	kind, envelope, ok := cutField(envelope, envelopeType)
	if !ok || string(kind) != podType {
		return nil
	}
	raw, envelope, ok := cutField(envelope, envelopeRaw)
	if !ok || !saysNothing(envelope) {
		return nil
	}
	metadata, raw, ok := cutField(raw, podMetadata)
	if !ok {
		return nil
	}
	if metadata, ok = withoutManagedFields(metadata); !ok {
		return nil
	}
	pod := &corev1.Pod{}
	if pod.ObjectMeta.Unmarshal(metadata) != nil {
		return nil
	}
	if _, _, ours := clustercache.OwnerOf(pod); !ours {
		return pod
	}
	spec, raw, ok := cutField(raw, podSpec)
	if !ok || pod.Spec.Unmarshal(spec) != nil {
		return nil
	}
	status, raw, ok := cutField(raw, podStatus)
	if !ok || len(raw) > 0 || pod.Status.Unmarshal(status) != nil {
		return nil
	}
	return pod
}

// cutField returns the first field of a message, if it has that number and is of bytes, and what follows it.
func cutField(message []byte, number uint64) (value, rest []byte, ok bool) {
	if len(message) == 0 || uint64(message[0]) != number<<3|ofBytes { // numbers below 16 are in one byte
		return nil, nil, false
	}
	size, n := binary.Uvarint(message[1:])
	if n <= 0 || size > uint64(len(message)-1-n) {
		return nil, nil, false
	}
	at := 1 + n
	return message[at : at+int(size)], message[at+int(size):], true
}

// saysNothing reports whether the rest of an envelope is as an API server writes it: empty fields for the encoding of the content.
func saysNothing(envelope []byte) bool {
	for _, field := range []uint64{envelopeEncoding, envelopeContent} {
		if value, after, ok := cutField(envelope, field); ok && len(value) == 0 {
			envelope = after
		}
	}
	return len(envelope) == 0
}

// withoutManagedFields is the metadata up to the managed fields, which are its last field. It is not ok if anything follows these.
func withoutManagedFields(metadata []byte) (before []byte, ok bool) {
	const managed = metaManagedFields<<3 | ofBytes
	end := -1
	for at := 0; at < len(metadata); {
		tag, n := binary.Uvarint(metadata[at:])
		size := -1
		if n > 0 {
			size = sizeOf(metadata[at+n:], tag)
		}
		switch {
		case size < 0, end >= 0 && tag != managed:
			return nil, false
		case tag == managed && end < 0:
			end = at
		}
		at += n + size
	}
	if end < 0 {
		return metadata, true
	}
	return metadata[:end], true
}

// sizeOf is how long the value of a field with that tag is; -1 if it does not end, or is of another type than metadata has.
func sizeOf(rest []byte, tag uint64) int {
	number, n := binary.Uvarint(rest)
	switch {
	case n <= 0:
		return -1
	case tag&ofType == ofNumber:
		return n
	case tag&ofType == ofBytes && number <= uint64(len(rest)-n):
		return n + int(number)
	}
	return -1
}
