// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/webhook/conversion"
)

// The limits of a review. A value of two bytes takes more than a hundred bytes when it is decoded, so objects are decoded one after the other. An object has
// at most as many values as fit into the 1.5 MiB that etcd stores: a smaller limit would let one stored object break all lists in the other version.
const (
	mostObjects   = 100_000
	largestObject = 4 << 20
	mostValues    = 800_000
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
		return errors.New("the objects are no array")
	}
	*o = data // not copied, because it may have 256 MiB: the decoder is not used again, so its buffer does not change
	return nil
}

// answer returns the review with the response, in pieces. Either all objects are converted, or none.
func (in *review) answer(limit int) ([][]byte, error) {
	out := apiextensionsv1.ConversionReview{TypeMeta: in.TypeMeta, Response: &apiextensionsv1.ConversionResponse{
		UID: in.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}}
	converted, err := in.Request.convert(limit + limit/2)
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

// convert returns the converted objects as the elements of a JSON array, at most limit bytes in total. Each element is a slice of its own: a buffer that grows
// would hold everything twice.
func (r *conversionRequest) convert(limit int) (pieces [][]byte, err error) {
	if len(r.Objects) == 0 {
		return nil, nil
	}
	objects := json.NewDecoder(bytes.NewReader(r.Objects))
	if _, err := objects.Token(); err != nil {
		return nil, fmt.Errorf("decoding the objects to convert: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // it replaces one byte by six
	size := 0
	for objects.More() {
		var raw json.RawMessage
		if err := objects.Decode(&raw); err != nil {
			return nil, fmt.Errorf("decoding the objects to convert: %w", err)
		}
		converted, err := convertOne(raw, r.DesiredAPIVersion)
		if err != nil {
			return nil, err
		}
		out.Reset()
		if len(pieces) > 0 {
			out.WriteByte(',')
		}
		if err := encoder.Encode(converted); err != nil {
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

// convertOne converts an object. It decodes only objects of a kind and a size that Everynode serves.
func convertOne(raw []byte, apiVersion string) (map[string]any, error) {
	var head struct {
		APIVersion text `json:"apiVersion"`
		Kind       text `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("decoding an object to convert: %w", err)
	}
	if _, err := conversion.Convert(map[string]any{"apiVersion": string(head.APIVersion), "kind": string(head.Kind)}, apiVersion); err != nil {
		return nil, err
	}
	if len(raw) > largestObject || valuesOf(raw) > mostValues {
		return nil, fmt.Errorf("an object to convert is too large: it has more than %d bytes or %d values", largestObject, mostValues)
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, fmt.Errorf("decoding an object to convert: %w", err)
	}
	return conversion.Convert(obj, apiVersion)
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

// valuesOf counts the values in valid compact JSON: each but the first comes after a comma, or is the first one in brackets. Empty brackets with spaces in them
// count as one more.
func valuesOf(data []byte) int {
	values, inText := 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == ',':
			values++
		case (c == '[' || c == '{') && data[i+1] != ']' && data[i+1] != '}':
			values++
		}
	}
	return values
}
