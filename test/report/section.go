// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
)

// Replace returns the document with text as the section of that name. It is an error unless the document has exactly
// one such section.
func Replace(document []byte, name, text string) ([]byte, error) {
	begin, end := fmt.Appendf(nil, "<!-- %s: begin -->\n", name), fmt.Appendf(nil, "<!-- %s: end -->\n", name)
	for _, mark := range [][]byte{begin, end} {
		if n := bytes.Count(document, mark); n != 1 {
			return nil, fmt.Errorf("the line %q appears %d times in the document, and must appear once", bytes.TrimSpace(mark), n)
		}
	}
	from, to := bytes.Index(document, begin)+len(begin), bytes.Index(document, end)
	if from > to {
		return nil, fmt.Errorf("the section %s ends before it begins", name)
	}
	return bytes.Join([][]byte{document[:from], []byte(text), document[to:]}, nil), nil
}
