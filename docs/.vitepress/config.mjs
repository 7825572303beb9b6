// The site of the manual: `make docs`. Pages stay plain Markdown that reads well in
// the repository, so links to files outside of docs/ become links to their source.
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const docs = normalize(join(dirname(fileURLToPath(import.meta.url)), '..'))
const source = 'https://github.com/kairos-mcp/kairos/blob/main/'

// sidebar is the index of the manual: its headings, and the links below them.
function sidebar() {
  const groups = []
  for (const line of readFileSync(join(docs, 'README.md'), 'utf8').split('\n')) {
    const heading = line.match(/^## (.+)/)
    if (heading) groups.push({ text: heading[1], collapsed: false, items: [] })
    for (const [, text, page] of line.matchAll(/\[([^\]]+)\]\(([\w/-]+)\.md\)/g)) {
      groups.at(-1)?.items.push({ text: text[0].toUpperCase() + text.slice(1), link: '/' + page.replace(/README$/, '') })
    }
  }
  return [...groups, { text: 'More', items: [
    { text: 'Troubleshooting', link: '/troubleshooting' }, { text: 'FAQ', link: '/faq' }, { text: 'Glossary', link: '/glossary' },
  ] }]
}

// repositoryLinks leads links that leave docs/ to the source of the project.
function repositoryLinks(md) {
  md.core.ruler.push('repository_links', (state) => {
    const page = state.env.relativePath ?? ''
    for (const token of state.tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const target = normalize(join('docs', dirname(page), href))
      if (!target.startsWith('docs/') || !/\.md(#|$)/.test(target)) token.attrSet('href', source + target)
    }
  })
}

// diagrams leaves blocks of Mermaid to the browser: theme/index.mjs.
function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, i, ...rest) => tokens[i].info.trim() === 'mermaid'
    ? `<pre class="mermaid" v-pre>${md.utils.escapeHtml(tokens[i].content)}</pre>`
    : fence(tokens, i, ...rest)
}

// withoutComments takes out the markers of generated tables. All other HTML of a
// page is text, such as <type> in a table.
function withoutComments(md) {
  md.core.ruler.before('normalize', 'without_comments', (state) => {
    state.src = state.src.replace(/^<!--.*-->$/gm, '')
  })
}

// templates keeps {{ steps.x }} of protocols from being read as one of Vue.
function templates(md) {
  for (const kind of ['text', 'code_inline']) {
    const plain = md.renderer.rules[kind]
    md.renderer.rules[kind] = (...args) => plain(...args).replaceAll('{{', '&#123;&#123;')
  }
}

export default defineConfig({
  title: 'KAIROS',
  description: 'An MCP server that makes agents follow procedures step by step and prove each step',
  rewrites: { 'README.md': 'index.md', ':folder/README.md': ':folder/index.md' },
  outDir: '../bin/docs',
  cacheDir: '../bin/docs-cache',
  cleanUrls: true,
  ignoreDeadLinks: false,
  markdown: { html: false, linkify: false, config(md) { withoutComments(md); repositoryLinks(md); diagrams(md); templates(md) } },
  themeConfig: { sidebar: sidebar(), search: { provider: 'local' }, outline: [2, 3] },
})
