package meaning

import (
	"cmp"
	"math"
	"slices"
)

// principal returns the principal components of vectors, the largest first. The sign of
// each is chosen so that its largest number is positive.
func principal(vectors [][]float64) [][]float64 {
	n := len(vectors[0])
	c := make([][]float64, n)
	for i := range c {
		c[i] = make([]float64, n)
	}
	for _, v := range vectors {
		for i, x := range v {
			for j := range i + 1 {
				c[i][j] += float64(x * v[j])
			}
		}
	}
	for i := range c {
		for j := range i {
			c[j][i] = c[i][j]
		}
	}
	values, basis := eigen(c)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b)) })
	out := make([][]float64, n)
	for i, at := range order {
		out[i] = basis[at]
		largest := slices.MaxFunc(out[i], func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		if largest < 0 {
			scale(out[i], -1)
		}
	}
	return out
}

// eigen returns the eigenvalues and eigenvectors of a symmetric matrix, which it
// changes, by Jacobi's rotations.
func eigen(a [][]float64) (values []float64, vectors [][]float64) {
	n := len(a)
	vectors = make([][]float64, n)
	for i := range vectors {
		vectors[i] = make([]float64, n)
		vectors[i][i] = 1
	}
	const sweeps = 100 // it takes about ten
	for range sweeps {
		rotated := false
		for p := range n {
			for q := p + 1; q < n; q++ {
				if math.Abs(a[p][q]) > 1e-12*math.Sqrt(math.Abs(float64(a[p][p]*a[q][q]))) {
					rotate(a, vectors, p, q)
					rotated = true
				}
			}
		}
		if !rotated {
			break
		}
	}
	values = make([]float64, n)
	for i := range a {
		values[i] = a[i][i]
	}
	return values, vectors
}

// rotate makes the entry at p, q zero.
func rotate(a, vectors [][]float64, p, q int) {
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := 1 / (math.Abs(theta) + math.Sqrt(float64(theta*theta)+1))
	if theta < 0 {
		t = -t
	}
	cos := 1 / math.Sqrt(float64(t*t)+1)
	sin := t * cos
	turn := func(x, y *float64) {
		*x, *y = float64(cos**x)-float64(sin**y), float64(sin**x)+float64(cos**y)
	}
	for i := range a {
		turn(&a[i][p], &a[i][q])
	}
	for i := range a {
		turn(&a[p][i], &a[q][i])
		turn(&vectors[p][i], &vectors[q][i])
	}
}
