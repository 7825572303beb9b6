package runs

// Claims is for how many runs somebody drives or waits to.
func (k *Keeper) Claims() int {
	k.claims.mu.Lock()
	defer k.claims.mu.Unlock()
	return len(k.claims.runs)
}
