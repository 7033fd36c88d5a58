// What the modules share.

/** `about` is the API's answer of this name; `view` is what the page shows now. */
export const page = { about: { actions: false, limits: {} }, view: null };
