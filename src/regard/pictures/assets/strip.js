// What each token receives, as a strip of heat along the text.

const strip = document.getElementById("received");

function paintReceived() {
  if (!state.data) return;
  const { context, width, height } = fitted(strip, 26);
  const { received } = state.data;
  // Of many parts the strongest hundredth are full: one sink would leave all others pale.
  const sorted = received.slice().sort();
  const most = sorted[sorted.length - 1 - Math.floor(sorted.length / 100)] || 1;
  const ramp = rampNow();
  const colour = (value) => {
    const at = 3 * Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, value) / most)));
    return `rgb(${ramp[at]} ${ramp[at + 1]} ${ramp[at + 2]})`;
  };
  const bins = received.length;
  const step = Math.max(1, Math.floor(bins / width)); // several to a pixel: the most of them
  for (let at = 0; at < bins; at += step) {
    let value = 0;
    for (let i = at; i < Math.min(bins, at + step); i++) value = Math.max(value, received[i]);
    const from = (at * width) / bins;
    context.fillStyle = colour(value);
    context.fillRect(from, 0, (step * width) / bins + 0.5, height);
    if (width / bins < 18) continue;
    const at3 = 3 * Math.round(255 * Math.sqrt(Math.min(1, value / most)));
    context.fillStyle = ramp[at3 + 1] > 140 ? "#14202b" : "#f4f8fb";
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillText(cut(context, TOKENS[at], width / bins - 6), from + 3, height / 2);
  }
}

strip.addEventListener("pointermove", (event) => {
  if (!state.data) return;
  const box = strip.getBoundingClientRect();
  const at = Math.floor(((event.clientX - box.left) / box.width) * COUNT);
  const token = Math.min(COUNT - 1, Math.max(0, at));
  const part = Math.floor(token / META.bin);
  const value = state.data.received[part].toFixed(2);
  const first = part * META.bin;
  document.getElementById("received-said").textContent = META.bin === 1
    ? say("page.received-value", { token: TOKENS[token], value })
    : say("page.received-most", { first, last: Math.min(COUNT, first + META.bin) - 1, value });
});

strip.addEventListener("pointerleave", () => {
  document.getElementById("received-said").textContent = "";
});
