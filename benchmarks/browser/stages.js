// Notes when stages of a first answer begin and end, in a page and in the workers it starts.
(() => {
  const instrument = () => {
    const channel = new BroadcastChannel("stages");
    const now = () => performance.timeOrigin + performance.now();
    const timed = (type, name) => {
      const inner = self[type]?.prototype[name];
      if (!inner) return;
      self[type].prototype[name] = function (...given) {
        const start = now();
        const made = inner.apply(this, given);
        const end = () => channel.postMessage([name, start, now()]);
        made instanceof Promise ? made.then(end, end) : end();
        return made;
      };
    };
    timed("GPU", "requestAdapter");
    timed("GPUAdapter", "requestDevice");
    timed("GPUDevice", "createShaderModule");
    timed("GPUDevice", "createComputePipeline");
    timed("GPUDevice", "createComputePipelineAsync");
    timed("GPUDevice", "popErrorScope");
    timed("GPUQueue", "submit");
    timed("GPUBuffer", "mapAsync");
  };

  const calls = [];
  new BroadcastChannel("stages").onmessage = ({ data: [name, start, end] }) =>
    calls.push([name, start - performance.timeOrigin, end - performance.timeOrigin]);
  window.stages = () => [
    ...performance.getEntriesByType("resource").map(({ name, startTime, responseEnd }) =>
      [/[.]m?js$/.test(name) ? "scripts" : "files", startTime, responseEnd]),
    ...calls,
  ];

  instrument();
  const Plain = Blob;
  window.Blob = class extends Plain {
    constructor(parts, given) {
      const script = given?.type === "text/javascript";
      super(script ? [`(${instrument})();`, ...parts] : parts, given);
    }
  };

  // A page of ours has run its model once before anybody gives it an input.
  new MutationObserver(() => {
    if (window.found || !document.querySelector(".outputs[data-warm]")) return;
    window.found = { data: null, times: [performance.now()] };
  }).observe(document, { subtree: true, attributes: true, childList: true });
})();
