import DefaultTheme from 'vitepress/theme'
import './style.css'
import { onMounted, watch, nextTick } from 'vue'
import { useData, useRoute } from 'vitepress'
import mermaidURL from 'mermaid/dist/mermaid.min.js?url'

// load fetches Mermaid as it is published: bundling it anew takes longer than all pages.
function load() {
  return globalThis.mermaid ?? new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.onload = () => resolve(globalThis.mermaid)
    script.onerror = reject
    script.src = mermaidURL
    document.head.append(script)
  })
}

// Diagrams are drawn in the browser, on pages that have one.
async function draw(dark) {
  const found = [...document.querySelectorAll('.mermaid')]
  if (found.length === 0) return
  const mermaid = await load()
  mermaid.initialize({ startOnLoad: false, theme: dark ? 'dark' : 'default' })
  for (const [i, diagram] of found.entries()) {
    diagram.dataset.source ??= diagram.textContent
    const { svg } = await mermaid.render(`diagram-${i}`, diagram.dataset.source)
    diagram.innerHTML = svg
  }
}

export default {
  extends: DefaultTheme,
  setup() {
    const { isDark } = useData()
    const route = useRoute()
    onMounted(() => draw(isDark.value))
    watch([() => route.path, isDark], () => nextTick(() => draw(isDark.value)))
  },
}
