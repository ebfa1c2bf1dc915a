// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/webhook/conversion"
)

// The limits of a review. A value of two bytes takes more than a hundred bytes when it is decoded, so objects are decoded one after the other, and of those that
// are larger than smallObject one at a time in all reviews. Anything that the API server can store is converted: a limit below its 3 MiB would let one
// stored object break all lists in the other version.
const (
	mostObjects   = 100_000
	largestObject = 4 << 20
	smallObject   = 64 << 10
)

// review is a ConversionReview. Only its request is read, and the objects are not decoded.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *conversionRequest `json:"request"`
}

type conversionRequest struct {
	UID               types.UID  `json:"uid"`
	DesiredAPIVersion string     `json:"desiredAPIVersion"`
	Objects           rawObjects `json:"objects"`
}

// rawObjects is the JSON of an array. It shares the buffer of the decoder.
type rawObjects []byte

// UnmarshalJSON implements json.Unmarshaler.
func (o *rawObjects) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*o = nil
		return nil
	}
	if data[0] != '[' {
		return errors.New("the objects are not an array")
	}
	*o = data // not copied, because it may have 256 MiB: the decoder is not used again, so its buffer does not change
	return nil
}

// answer returns the review with the response, in pieces. Either all objects are converted, or none.
func (c *converter) answer(in *review, limit int) ([][]byte, error) {
	out := apiextensionsv1.ConversionReview{TypeMeta: in.TypeMeta, Response: &apiextensionsv1.ConversionResponse{
		UID: in.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}}
	converted, err := c.convertAll(in.Request, limit+limit/2)
	if err != nil {
		out.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
		refused, err := json.Marshal(out)
		return [][]byte{refused}, err
	}
	out.Response.ConvertedObjects = []runtime.RawExtension{}
	frame, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	const array = `"convertedObjects":[` // a JSON string cannot contain it, because quotation marks are escaped
	at := bytes.Index(frame, []byte(array)) + len(array)
	return append(append([][]byte{frame[:at]}, converted...), frame[at:]), nil
}

// convertAll returns the converted objects as the elements of a JSON array, at most limit bytes in total. Each element is a slice of its own: a buffer that grows
// would hold everything twice.
func (c *converter) convertAll(r *conversionRequest, limit int) (pieces [][]byte, err error) {
	if len(r.Objects) == 0 {
		return nil, nil
	}
	objects := json.NewDecoder(bytes.NewReader(r.Objects))
	if _, err := objects.Token(); err != nil {
		return nil, fmt.Errorf("decoding the objects to convert: %w", err)
	}
	var out bytes.Buffer
	size := 0
	for objects.More() {
		var raw json.RawMessage
		if err := objects.Decode(&raw); err != nil {
			return nil, fmt.Errorf("decoding the objects to convert: %w", err)
		}
		out.Reset()
		if len(pieces) > 0 {
			out.WriteByte(',')
		}
		if err := c.convertOne(&out, raw, r.DesiredAPIVersion); err != nil {
			return nil, err
		}
		out.Truncate(out.Len() - 1) // the newline of Encode
		pieces = append(pieces, bytes.Clone(out.Bytes()))
		if size += out.Len(); len(pieces) > mostObjects || size > limit {
			return nil, fmt.Errorf("too much to convert at once: more than %d objects, or %d bytes", mostObjects, limit)
		}
	}
	return pieces, nil
}

// convertOne converts an object, and writes it and a newline to out. It decodes only objects of a kind and a size that Everynode serves.
func (c *converter) convertOne(out io.Writer, raw []byte, apiVersion string) error {
	var head struct {
		APIVersion text `json:"apiVersion"`
		Kind       text `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("decoding an object to convert: %w", err)
	}
	if _, err := conversion.Convert(map[string]any{"apiVersion": string(head.APIVersion), "kind": string(head.Kind)}, apiVersion); err != nil {
		return err
	}
	if len(raw) > largestObject {
		return fmt.Errorf("an object to convert is too large: it has more than %d bytes", largestObject)
	}
	if len(raw) > smallObject {
		c.decoding.Lock()
		defer c.decoding.Unlock()
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return fmt.Errorf("decoding an object to convert: %w", err)
	}
	converted, err := conversion.Convert(obj, apiVersion)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false) // it replaces one byte by six
	return encoder.Encode(converted)
}

// text is a JSON string; other values are read as the empty string.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	*t = ""
	if data[0] != '"' {
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}
