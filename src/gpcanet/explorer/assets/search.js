// A search field with a list of the names that match.
const MATCHES = 8;

// Positions of names: the same text first, then names that begin with it, then those that contain it.
function matchingNames(names, text) {
  const same = names.indexOf(text), found = same < 0 ? [] : [same], lower = text.toLowerCase();
  const within = [];
  for (let i = 0; i < names.length && found.length < MATCHES; i++) {
    if (i === same) continue;
    const at = names[i].toLowerCase().indexOf(lower);
    if (at === 0) found.push(i);
    else if (at > 0 && within.length < MATCHES) within.push(i);
  }
  return found.concat(within).slice(0, MATCHES);
}

// form: a form with an input and a list; names: texts; none: what the list says without a match.
function addSearch(form, names, none, choose) {
  const input = form.querySelector("input"), list = form.querySelector("ul");
  function take(position) {
    list.hidden = true;
    input.value = names[position];
    choose(position);
  }
  function search() {
    const text = input.value.trim(), matches = text ? matchingNames(names, text) : [];
    list.hidden = !text;
    list.replaceChildren(...matches.map((position) => {
      const item = make("li"), button = make("button", names[position], { type: "button" });
      button.title = names[position];
      button.addEventListener("click", () => take(position));
      item.append(button);
      return item;
    }));
    if (!matches.length) list.append(make("li", none, { class: "none" }));
    return matches;
  }
  input.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [first] = search();
    if (first !== undefined) take(first);
  });
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") list.hidden = true; });
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) list.hidden = true;
  });
}
