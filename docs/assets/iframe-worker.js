/* Search without a server: browsers refuse workers to pages that are opened from disk.
   This class runs the script of a worker in a hidden frame and passes messages in both directions. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const waiting = [];
      this.send = (data) => waiting.push(data);
      inside.IFrameWorker = window.IFrameWorker;
      inside.importScripts = (...urls) =>
        urls.reduce(
          (done, source) =>
            done.then(
              () =>
                new Promise((resolve, reject) => {
                  const script = inside.document.createElement("script");
                  script.src = source;
                  script.onload = resolve;
                  script.onerror = reject;
                  inside.document.body.append(script);
                }),
            ),
          Promise.resolve(),
        );
      // The script of the worker answers with postMessage and listens for messages on its own window.
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      inside.importScripts(url).then(() => {
        this.send = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
        waiting.forEach((data) => this.send(data));
      });
    }
    postMessage(data) {
      this.send(data);
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
