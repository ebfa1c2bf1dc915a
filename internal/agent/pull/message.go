// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"strings"
)

// The format of the tries in a message. A status has no other field for them, and the next agent reads them from the
// message.
const (
	triedFormat = "try %d of %d failed: "
	triedThen   = "; then: "
)

// say sets the message: the error of the last try, and why the want waits.
func (e *entry) say(text string) {
	s := &e.state
	s.Message = text
	if s.Tries == 0 {
		return
	}
	s.Message = fmt.Sprintf(triedFormat, s.Tries, e.want.retries()+1) + s.Failure
	if text != "" {
		s.Message += triedThen + text
	}
}

// triesOf parses the tries in a message of say; other messages contain none.
func triesOf(message string) (tries int, failure string) {
	allowed := 0
	if n, _ := fmt.Sscanf(message, triedFormat, &tries, &allowed); n < 2 || tries < 1 || tries > allowed {
		return 0, ""
	}
	_, failure, _ = strings.Cut(message, ": ")
	failure, _, _ = strings.Cut(failure, triedThen)
	return tries, failure
}
