package main

// Texts for the agent beside the description of an input.
const (
	askThePerson = "Ask the user and pass on the user's own answer. Never answer in the user's place and do not infer the answer."

	askForApproval = "A person must approve this step before anything is done. Show the user exactly what follows, wait for the " +
		`user's own decision and submit it as user_input.confirmation: "approved" or "rejected". Do not do the work yet, ` +
		"never decide in the user's place and do not invent an answer."

	reportFiles = "Report in solution.evidence, under files, each of them as it really is: path, exists, and for one that is there size in bytes and " +
		"sha256 of its content. Compute them, do not fabricate."
)
