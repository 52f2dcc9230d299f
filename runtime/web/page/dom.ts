/** Small things about elements. */

type Child = Node | string | null | false;
type Props<K extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[K], "style" | "dataset">
> & { readonly data?: Record<string, string> };

/** An element with properties and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, props: Props<K> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  const { data, ...rest } = props;
  Object.assign(made, rest);
  Object.assign(made.dataset, data);
  made.append(...children.filter((child): child is Node | string => Boolean(child)));
  return made;
}

/** Replace all children of an element. */
export function fill(parent: HTMLElement, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child): child is Node | string => Boolean(child)));
}

/** A button that asks for files. */
export function chooser(
  label: string, accept: string, take: (files: File[]) => void, className = "choose",
): HTMLElement {
  const input = el("input", { type: "file", accept, multiple: true });
  input.onchange = () => {
    if (input.files?.length) take([...input.files]);
    input.value = "";
  };
  return el("label", { className }, input, el("span", {}, label));
}

/** A place that takes files, dropped or chosen. */
export function dropzone(
  label: string, accept: string, take: (files: File[]) => void,
): HTMLElement {
  const zone = chooser(label, accept, take, "drop");
  takeDropped(zone, take);
  return zone;
}

/** Let files be dropped on an element; text that is dragged is left to the browser. */
export function takeDropped(zone: HTMLElement, take: (files: File[]) => void): void {
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files");
  zone.ondragover = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    zone.classList.add("over");
  };
  zone.ondragleave = (event) => {
    if (!zone.contains(event.relatedTarget as Node | null)) zone.classList.remove("over");
  };
  zone.ondrop = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    zone.classList.remove("over");
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length) take(files);
  };
}

/** Have the browser save a file. */
export function download(name: string, bytes: Uint8Array<ArrayBuffer>): void {
  const url = URL.createObjectURL(new Blob([bytes]));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A number of bytes for people. */
export function megabytes(bytes: number): string {
  if (bytes < 1 << 20) return `${Math.max(1, Math.round(bytes / 1024))} KiB`;
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/** A number for people. */
export function brief(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4));
}
