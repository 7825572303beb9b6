package director

// notByReport says why nobody but the person may answer.
const notByReport = "This step takes only a person's own answer, given to the server itself. Do not answer for them and do not pass their answer on"
