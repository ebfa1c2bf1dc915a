// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"strings"
)

// How a message contains the tries. A status has no other field for them, and the next agent reads them there.
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

// triesOf reads what say has written; any other message contains no try.
func triesOf(message string) (tries int, failure string) {
	allowed := 0
	if n, _ := fmt.Sscanf(message, triedFormat, &tries, &allowed); n < 2 || tries < 1 || tries > allowed {
		return 0, ""
	}
	_, failure, _ = strings.Cut(message, ": ")
	failure, _, _ = strings.Cut(failure, triedThen)
	return tries, failure
}
