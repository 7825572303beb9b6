package cache

import "sync"

// Once returns a function that calls produce until it succeeds, one call at a time,
// and from then on returns what it produced. Unlike sync.OnceValues it does not keep
// a failure, such as that of a disk that was full for a moment.
func Once[T any](produce func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var made bool
	var value T
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if made {
			return value, nil
		}
		v, err := produce()
		if err != nil {
			return v, err
		}
		value, made = v, true
		return value, nil
	}
}
