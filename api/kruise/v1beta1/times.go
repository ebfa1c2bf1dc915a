// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"encoding/json"
	"strings"
	"time"

	exactjson "k8s.io/apimachinery/pkg/util/json"
)

// An API server accepts times in a custom resource that Go cannot read, such as 2026-01-01t00:00:00z: the format date-time of a CRD allows lower-case letters, and
// any offset. One such time would make the list of all objects of its kind unreadable. The status of a NodeImage is written by the node, so each node could stop
// the image pulls of all others. So times in a status that cannot be read are read in upper case, or left out.

// UnmarshalJSON implements json.Unmarshaler.
func (s *NodeImageStatus) UnmarshalJSON(data []byte) error {
	type plain NodeImageStatus
	return readStatus(data, (*plain)(s))
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *ImagePullJobStatus) UnmarshalJSON(data []byte) error {
	type plain ImagePullJobStatus
	return readStatus(data, (*plain)(s))
}

func readStatus[T any](data []byte, status *T) error {
	err := json.Unmarshal(data, status)
	if err == nil {
		return nil
	}
	var loose map[string]any
	if exactjson.Unmarshal(data, &loose) != nil { // which keeps large numbers as they are
		return err
	}
	repairTimes(loose)
	if data, err = json.Marshal(loose); err != nil {
		return err
	}
	*status = *new(T)
	return json.Unmarshal(data, status)
}

// repairTimes changes or removes the times of a status that cannot be read.
func repairTimes(in any) {
	switch in := in.(type) {
	case []any:
		for _, item := range in {
			repairTimes(item)
		}
	case map[string]any:
		for field, value := range in {
			text, is := value.(string)
			if !is {
				repairTimes(value)
				continue
			}
			switch field {
			case "startTime", "completionTime", "syncAt", "lastTransitionTime":
				in[field] = nil
				if text = strings.ToUpper(text); isTime(text) {
					in[field] = text
				}
			}
		}
	}
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}
