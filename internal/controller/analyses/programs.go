// SPDX-License-Identifier: Apache-2.0

package analyses

import "sync"

// programs are the compiled expressions of the questions that are being asked: each is compiled when it is needed first, and forgotten with the last question that has it.
type programs struct {
	compile func(text string) (*expression, error)

	mu sync.Mutex
	of map[string]*program
}

type program struct {
	// users are how many questions have it.
	users    int
	compiled func() (*expression, error)
}

func newPrograms(compile func(text string) (*expression, error)) *programs {
	return &programs{compile: compile, of: map[string]*program{}}
}

// use returns what compiles an expression once, until end is called.
func (p *programs) use(text string) (compiled func() (*expression, error), end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.of[text]
	if is == nil {
		is = &program{compiled: sync.OnceValues(func() (*expression, error) { return p.compile(text) })}
		p.of[text] = is
	}
	is.users++
	return is.compiled, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if is.users--; is.users == 0 {
			delete(p.of, text)
		}
	}
}
