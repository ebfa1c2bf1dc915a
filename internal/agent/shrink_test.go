// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"
)

// Only what is the same in the file may be let go of: what was written is nowhere else.
func TestMappings(t *testing.T) {
	const maps = `00400000-0115b000 r-xp 00000000 fe:00 12 /bin/agent
0115b000-02092000 r--p 00d5b000 fe:00 12                       /bin/agent
02092000-02124000 rw-p 01c92000 fe:00 12                       /bin/agent
02124000-04170000 rw-p 00000000 00:00 0
c000000000-c000800000 rw-p 00000000 00:00 0 [anon: Go: heap]
7f0000000000-7f0000001000 r--p 00000000 fe:00 13 /bin/other
7f0000002000-7f0000003000 r--s 00000000 fe:00 12 /bin/agent
zz-7f r--p 00000000 fe:00 12 /bin/agent
`
	want := []mapping{{0x400000, 0x115b000}, {0x115b000, 0x2092000}}
	if got := mappings(strings.NewReader(maps), "/bin/agent"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if err := letGo(); err != nil {
		t.Error(err)
	}
}
